// y[i] = draw[i] < threshold ? 0 : x[i] · keep_scale. A thread takes the eight elements of a Philox
// block, and two blocks at once to hide the latency of memory: one pack of 16 bytes for 16-bit
// elements, two for float32. If x consists of scores, the eight elements of a thread are four pairs
// of neighbouring keys, and a warp has 128 keys of two queries. Bytes: 2·n·s.
#include "gpu/check.h"
#include "ops/cuda/element_dropout.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/dropout.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 2;
constexpr int kDraws = static_cast<int>(kDrawsOfBlock);

// Loads the first `count` of N elements; with kVectors, all N at once if count is N.
template <int N, bool kVectors, typename S>
__device__ void Load(const S* x, int64_t count, float* to) {
  constexpr int kPack = N < kPackSize<S> ? N : kPackSize<S>;
  if (kVectors && count >= N) {
#pragma unroll
    for (int i = 0; i < N; i += kPack) {
      LoadPack(x + i, *reinterpret_cast<float(*)[kPack]>(to + i));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = i < count ? ToFloat(x[i]) : 0.0f;
}

template <int N, bool kVectors, typename S>
__device__ void Store(S* y, int64_t count, const float* from) {
  constexpr int kPack = N < kPackSize<S> ? N : kPackSize<S>;
  if (kVectors && count >= N) {
#pragma unroll
    for (int i = 0; i < N; i += kPack) {
      StoreGlobal(y + i, *reinterpret_cast<const float(*)[kPack]>(from + i));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i < count) y[i] = FromFloat<S>(from[i]);
  }
}

// Without kVectors, elements are read and written one by one.
template <bool kVectors, typename S>
__global__ void __launch_bounds__(kThreads)
    DropoutKernel(int64_t n, ElementDropout d, const S* x, S* y) {
  const int64_t begin = int64_t{blockIdx.x} * kThreads * kUnroll + threadIdx.x;
  const uint2 key = PhiloxKey(d.rng);
  float values[kUnroll][kDraws];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t first = (begin + u * kThreads) * kDraws;
    Load<kDraws, kVectors>(x + first, n - first, values[u]);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t first = (begin + u * kThreads) * kDraws;
    DropElements<kDraws>(d, key, first, values[u]);
    Store<kDraws, kVectors>(y + first, n - first, values[u]);
  }
}

// The kernel for a part whose draws are not consecutive, or don't begin with a Philox block. A
// thread has eight elements, for which it computes up to eight blocks.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    DropPartKernel(int64_t n, PartDraws part, ElementDropout d, const S* x, S* y) {
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kDraws;
  const int64_t count = n - first;
  if (count <= 0) return;
  float values[kDraws];
  Load<kDraws, false>(x + first, count, values);
  if (part.run % kDraws == 0) {
    DropElements<kDraws>(d, PhiloxKey(d.rng), part.Of(first), values);
  } else {
#pragma unroll 1
    for (int i = 0; i < kDraws; ++i) values[i] = DropElement(d, part.Of(first + i), values[i]);
  }
  Store<kDraws, false>(y + first, count, values);
}

// A block of threads has a band of 16 queries of a matrix (blockIdx.x) and 128 keys (blockIdx.y).
// Warp i has the queries i and i + 8; a thread has the keys 2j, 2j + 1, 2j + 8 and 2j + 9 of a
// tile.
constexpr int kScoreKeys = 32 / 4 * static_cast<int>(kScoreTile);

template <bool kVectors, typename S>
__global__ void __launch_bounds__(kThreads)
    DropScoresKernel(int sequence, ElementDropout d, const S* x, S* y) {
  const int bands = (sequence + kScoreTile - 1) / kScoreTile;
  const int row = blockIdx.x / bands;
  const int query = blockIdx.x % bands * kScoreTile + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int key = blockIdx.y * kScoreKeys + lane / 4 * kScoreTile + lane % 4 * 2;
  const int64_t at = (int64_t{row} * sequence + query) * sequence + key;
  const int64_t eight_rows = int64_t{8} * sequence;
  float values[2][2][2];  // [query, query + 8][key, key + 8][key, key + 1]
#pragma unroll
  for (int q = 0; q < 2; ++q) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int count = query + 8 * q < sequence ? sequence - key - 8 * k : 0;
      Load<2, kVectors>(x + at + q * eight_rows + 8 * k, count, values[q][k]);
    }
  }
  const uint64_t draw = ScoreDraw(row, query, key, sequence);
  const uint4 words = PhiloxBlock<kDropoutRounds>(d.rng, d.stream, draw / kDrawsOfBlock);
  DropTwo(d, words.x, values[0][0][0], values[0][1][0]);
  DropTwo(d, words.y, values[1][0][0], values[1][1][0]);
  DropTwo(d, words.z, values[0][0][1], values[0][1][1]);
  DropTwo(d, words.w, values[1][0][1], values[1][1][1]);
#pragma unroll
  for (int q = 0; q < 2; ++q) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int count = query + 8 * q < sequence ? sequence - key - 8 * k : 0;
      Store<2, kVectors>(y + at + q * eight_rows + 8 * k, count, values[q][k]);
    }
  }
}

template <typename S>
void LaunchElements(const CudaContext& ctx, ElementDropout d, const S* x, S* y) {
  const int64_t n = ctx.in_shape(0).elements();
  const PartDraws part(ctx.in_shape(0), ctx.attributes, ctx.ranks);
  if (part.run < n || part.first % kDraws != 0) {
    constexpr int kElements = kThreads * kDraws;
    const auto blocks = static_cast<unsigned>((n + kElements - 1) / kElements);
    d.first = 0;  // `part` gives the numbers of the draws
    DropPartKernel<S><<<blocks, kThreads, 0, ctx.stream>>>(n, part, d, x, y);
    return;
  }
  constexpr int kElements = kThreads * kUnroll * kDraws;
  const auto blocks = static_cast<unsigned>((n + kElements - 1) / kElements);
  const auto kernel = Aligned(x, y) ? &DropoutKernel<true, S> : &DropoutKernel<false, S>;
  kernel<<<blocks, kThreads, 0, ctx.stream>>>(n, d, x, y);
}

template <typename S>
void LaunchScores(const CudaContext& ctx, const ElementDropout& d, const S* x, S* y) {
  const graph::Shape& shape = ctx.in_shape(0);
  const int64_t sequence = shape.dim(shape.rank() - 1);
  const int64_t bands = (sequence + kScoreTile - 1) / kScoreTile;
  const int64_t matrices = shape.elements() / (sequence * sequence);
  const dim3 grid(static_cast<unsigned>(matrices * bands),
                  static_cast<unsigned>((sequence + kScoreKeys - 1) / kScoreKeys));
  const bool pairs = sequence % 2 == 0 && Aligned(x, y);
  const auto kernel = pairs ? &DropScoresKernel<true, S> : &DropScoresKernel<false, S>;
  kernel<<<grid, kThreads, 0, ctx.stream>>>(static_cast<int>(sequence), d, x, y);
}

void Dropout(const CudaContext& ctx) {
  if (ctx.in_shape(0).elements() == 0) return;
  const ElementDropout d = DropoutOf(ctx, 1);
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    const S* x = ctx.in<S>(0);
    S* y = ctx.out<S>(0);
    DropsScores(ctx.attributes) ? LaunchScores(ctx, d, x, y) : LaunchElements(ctx, d, x, y);
    gpu::CheckLaunch("dropout");
  });
}

const CudaKernelRegistration kDropout({"dropout", &Dropout});

}  // namespace
}  // namespace plimsoll::ops
