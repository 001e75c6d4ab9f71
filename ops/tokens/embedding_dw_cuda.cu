// dweight[v] = (acc[v] +) Σ dy[b,t] over tokens[b,t] = v, without atomics and the same in every
// run.
//
// The positions of the batch are sorted by token (a stable radix sort), so that the rows of a token
// form a run of the list. One warp sums 32 neighbours of the list in one strip of columns. A run
// within these 32 is written at once. The sums of runs that extend into other pieces are stored in
// the workspace, and a second kernel adds them in the order of the list. So several warps work on a
// frequent token, and a rare one costs no more than its row. With acc in place, only rows of tokens
// are accessed. Bytes: N·D·s + 2·R·D·4, R the distinct tokens; V·D·4 more to clear dweight without
// acc. A dweight in bf16 (the attribute "low_gradient") is rounded once: to nearest or, with acc,
// stochastically.
//
// dposition[first + t] = (acc +) Σ_b dy[b,t]: a thread takes a pack of columns of a row. Bytes:
// N·D·s + P·D·4.
#include <cub/device/device_radix_sort.cuh>

#include "gpu/check.h"
#include "ops/collectives/vocabulary_shard.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/philox.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/rounded_sum.h"
#include "ops/cuda/stochastic_rounding.cuh"
#include "ops/cuda_kernel.h"
#include "ops/tokens/embedding_dw_scratch.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kPiece = kEmbeddingPiece;
constexpr int kAhead = 4;  // rows that a warp loads before it adds the first
static_assert(kPiece == kWarp && kPiece % kAhead == 0);

unsigned Blocks(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

// Copies N floats from or to an address aligned to 16 bytes, or to 4 for a single float.
template <int N>
__device__ void LoadFloats(const float* from, float (&to)[N]) {
  constexpr int kStep = N < 4 ? N : 4;
#pragma unroll
  for (int i = 0; i < N; i += kStep) {
    const auto pack = *reinterpret_cast<const Pack<float, kStep>*>(from + i);
#pragma unroll
    for (int j = 0; j < kStep; ++j) to[i + j] = pack.values[j];
  }
}
template <int N>
__device__ void StoreFloats(float* to, const float (&from)[N]) {
  constexpr int kStep = N < 4 ? N : 4;
#pragma unroll
  for (int i = 0; i < N; i += kStep) {
    Pack<float, kStep> pack;
#pragma unroll
    for (int j = 0; j < kStep; ++j) pack.values[j] = from[i + j];
    *reinterpret_cast<Pack<float, kStep>*>(to + i) = pack;
  }
}

// Lists the tokens and their positions. A token outside the table, which begins at `begin`, sorts
// last and is left out. It belongs to another rank, or is outside the vocabulary, which code that
// reads tokens prevents.
__global__ void ListTokensKernel(const int32_t* tokens, int n, int begin, int vocabulary,
                                 int32_t* keys, int32_t* positions) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const int32_t token = tokens[i] - begin;
  keys[i] = token >= 0 && token < vocabulary ? token : vocabulary;
  positions[i] = i;
}

// Loads N values of a gradient as floats, from either type of the gradient.
template <int N>
__device__ void LoadFloats(const __nv_bfloat16* from, float (&to)[N]) {
  const auto pack = *reinterpret_cast<const Pack<__nv_bfloat16, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = ToFloat(pack.values[i]);
}

// G: the gradient's type.
template <typename T, typename G>
struct EmbeddingSum {
  const int32_t* keys;
  const int32_t* positions;
  int n;
  int vocabulary;
  int width;
  int strips;  // each has the columns of 32 lanes
  const T* dy;
  bool add;  // whether to add to the values in dweight
  G* dweight;
  float* partials;        // [pieces][2][width]: runs from before the piece, runs that go on
  RoundingStream random;  // random bits for rounding a bf16 dweight, with `add`
};

// Stores N sums; the first is element `at` of dweight.
template <int N, typename T>
__device__ void StoreSums(const EmbeddingSum<T, float>& p, int64_t at, const float (&sum)[N]) {
  StoreFloats<N>(p.dweight + at, sum);
}
template <int N, typename T>
__device__ void StoreSums(const EmbeddingSum<T, __nv_bfloat16>& p, int64_t at,
                          const float (&sum)[N]) {
  static_assert(N == 1 || N == 8);
  Pack<__nv_bfloat16, N> pack;
  if (!p.add) {
#pragma unroll
    for (int i = 0; i < N; ++i) pack.values[i] = FromFloat<__nv_bfloat16>(sum[i]);
  } else {
    const uint4 drawn = PhiloxBlock(p.random.rng, p.random.key, static_cast<uint64_t>(at / 8));
    const uint32_t words[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int place = static_cast<int>(at + i) % 8;
      const uint32_t random = words[place / 2] >> (place % 2 * 16) & 0xffff;
      const auto bits = static_cast<unsigned short>(RoundStochastically(sum[i], random) >> 16);
      pack.values[i] = __ushort_as_bfloat16(bits);
    }
  }
  *reinterpret_cast<Pack<__nv_bfloat16, N>*>(p.dweight + at) = pack;
}

// The piece of this warp, and the first column of its lane.
template <int N>
struct EmbeddingPlace {
  int begin, end;  // begin and end in the list
  int column;
  int before, after;  // keys of the neighbours; -1 without a neighbour
  bool active;

  template <typename Sum>
  __device__ explicit EmbeddingPlace(const Sum& p) {
    const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
    begin = static_cast<int>(warp / p.strips) * kPiece;
    end = min(begin + kPiece, p.n);
    column = static_cast<int>(warp % p.strips * kWarp + threadIdx.x % kWarp) * N;
    active = column < p.width;
    if (!active) column = 0;
    if (begin >= p.n) return;
    before = begin > 0 ? p.keys[begin - 1] : -1;
    after = end < p.n ? p.keys[end] : -1;
  }
};

template <int N, typename T, typename G>
__global__ __launch_bounds__(kThreads) void SumPiecesKernel(EmbeddingSum<T, G> p) {
  const EmbeddingPlace<N> at(p);
  if (at.begin >= p.n) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int mine = min(at.begin + lane, at.end - 1);
  const int key = p.keys[mine], position = p.positions[mine];
  const int count = at.end - at.begin;
  const auto crosses = [&](int token) { return token == at.before || token == at.after; };
  // Whether entry e is the first of its run within the piece.
  const auto begins = [&](int e) {
    return e == 0 || __shfl_sync(~0u, key, e) != __shfl_sync(~0u, key, e - 1);
  };

  float sum[N];
  for (int first = 0; first < count; first += kAhead) {
    Pack<T, N> rows[kAhead];
    float start[kAhead][N];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int e = min(first + k, count - 1);
      const int token = __shfl_sync(~0u, key, e);
      const int64_t row = __shfl_sync(~0u, position, e);
      rows[k] = *reinterpret_cast<const Pack<T, N>*>(p.dy + row * p.width + at.column);
#pragma unroll
      for (int j = 0; j < N; ++j) start[k][j] = 0;
      if (begins(e) && p.add && token < p.vocabulary && !crosses(token)) {
        LoadFloats<N>(p.dweight + int64_t{token} * p.width + at.column, start[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int e = first + k;
      if (e >= count) break;
      const int token = __shfl_sync(~0u, key, e);
      if (begins(e)) {
#pragma unroll
        for (int j = 0; j < N; ++j) sum[j] = start[k][j];
      }
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += ToFloat(rows[k].values[j]);
      const bool ends = e == count - 1 || begins(e + 1);
      if (!ends || !at.active || token >= p.vocabulary) continue;
      if (crosses(token)) {
        const int64_t slot = 2 * (at.begin / kPiece) + (token == at.before ? 0 : 1);
        StoreFloats<N>(p.partials + slot * p.width + at.column, sum);
      } else {
        StoreSums<N>(p, int64_t{token} * p.width + at.column, sum);
      }
    }
  }
}

// Finishes the run that begins in this warp's piece and extends beyond it, if there is one.
template <int N, typename T, typename G>
__global__ __launch_bounds__(kThreads) void JoinPiecesKernel(EmbeddingSum<T, G> p) {
  const EmbeddingPlace<N> at(p);
  if (at.begin >= p.n) return;
  const int token = p.keys[at.end - 1];
  if (token != at.after || token == at.before || token >= p.vocabulary) return;
  // Counts how many of the next pieces begin with the token, 32 at a time.
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int more = 0;
  for (unsigned ours = ~0u; ours == ~0u;) {
    const int64_t first = at.end + int64_t{more + lane} * kPiece;
    ours = __ballot_sync(~0u, first < p.n && p.keys[first] == token);
    more += ours == ~0u ? kWarp : __ffs(static_cast<int>(~ours)) - 1;
  }
  const int64_t to = int64_t{token} * p.width + at.column;
  float sum[N] = {}, part[N];
  if (p.add) LoadFloats<N>(p.dweight + to, sum);
  const int64_t piece = at.begin / kPiece;
  const float* from = p.partials + at.column;
  LoadFloats<N>(from + (2 * piece + 1) * p.width, part);
#pragma unroll
  for (int j = 0; j < N; ++j) sum[j] += part[j];
#pragma unroll 8
  for (int k = 1; k <= more; ++k) {
    LoadFloats<N>(from + 2 * (piece + k) * p.width, part);
#pragma unroll
    for (int j = 0; j < N; ++j) sum[j] += part[j];
  }
  if (at.active) StoreSums<N>(p, to, sum);
}

template <int N, typename T, typename G>
void SumRuns(EmbeddingSum<T, G> p, cudaStream_t stream) {
  p.strips = (p.width + kWarp * N - 1) / (kWarp * N);
  const unsigned blocks = Blocks(EmbeddingDwScratch::Pieces(p.n) * p.strips * kWarp);
  SumPiecesKernel<N><<<blocks, kThreads, 0, stream>>>(p);
  gpu::CheckLaunch("embedding_dw, pieces");
  JoinPiecesKernel<N><<<blocks, kThreads, 0, stream>>>(p);
  gpu::CheckLaunch("embedding_dw, joined");
}

// Sorts the positions by token. Returns the index of the buffer that holds the result.
int SortTokens(const CudaContext& ctx, const EmbeddingDwScratch& scratch, int n, int vocabulary) {
  const VocabularyShard shard(ctx.attributes, ctx.ranks, vocabulary);
  char* base = static_cast<char*>(ctx.workspace);
  const auto part = [&](int64_t offset) { return reinterpret_cast<int32_t*>(base + offset); };
  ListTokensKernel<<<Blocks(n), kThreads, 0, ctx.stream>>>(
      ctx.in<int32_t>(0), n, static_cast<int>(shard.begin), vocabulary, part(scratch.keys[0]),
      part(scratch.positions[0]));
  gpu::CheckLaunch("embedding_dw, list");
  cub::DoubleBuffer<int32_t> keys(part(scratch.keys[0]), part(scratch.keys[1]));
  cub::DoubleBuffer<int32_t> positions(part(scratch.positions[0]), part(scratch.positions[1]));
  int bits = 1;
  while (vocabulary >> bits != 0) ++bits;
  size_t needed = 0;
  gpu::Check(
      cub::DeviceRadixSort::SortPairs(nullptr, needed, keys, positions, n, 0, bits, ctx.stream),
      "cub::DeviceRadixSort::SortPairs");
  if (needed > static_cast<size_t>(scratch.sort_bytes)) {
    throw InternalError("embedding_dw: the sort of " + std::to_string(n) + " tokens needs " +
                        std::to_string(needed) + " bytes, not " +
                        std::to_string(scratch.sort_bytes));
  }
  gpu::Check(cub::DeviceRadixSort::SortPairs(base + scratch.sort, needed, keys, positions, n, 0,
                                             bits, ctx.stream),
             "cub::DeviceRadixSort::SortPairs");
  if (keys.selector != positions.selector) throw InternalError("embedding_dw: buffers differ");
  return keys.selector;
}

// T: the type of dy. G: the type of the gradient.
template <typename T, typename G>
void AddEmbeddings(const CudaContext& ctx) {
  const int64_t bytes = ctx.outputs[0].type.bytes();
  G* const dweight = ctx.out<G>(0);
  const G* const acc = ctx.in<G>(2);
  if (acc == nullptr) {
    gpu::Check(cudaMemsetAsync(dweight, 0, bytes, ctx.stream), "cudaMemsetAsync");
  } else if (acc != dweight) {
    gpu::Check(cudaMemcpyAsync(dweight, acc, bytes, cudaMemcpyDeviceToDevice, ctx.stream),
               "cudaMemcpyAsync");
  }
  const int n = static_cast<int>(ctx.in_shape(0).elements());
  const int vocabulary = static_cast<int>(ctx.out_shape(0).dim(0));
  const int width = static_cast<int>(ctx.out_shape(0).dim(1));
  if (n == 0) return;
  const EmbeddingDwScratch scratch(n, width);
  const int sorted = SortTokens(ctx, scratch, n, vocabulary);
  const char* base = static_cast<const char*>(ctx.workspace);
  EmbeddingSum<T, G> p = {
      .keys = reinterpret_cast<const int32_t*>(base + scratch.keys[sorted]),
      .positions = reinterpret_cast<const int32_t*>(base + scratch.positions[sorted]),
      .n = n,
      .vocabulary = vocabulary,
      .width = width,
      .strips = 0,
      .dy = ctx.in<T>(1),
      .add = acc != nullptr,
      .dweight = dweight,
      .partials = reinterpret_cast<float*>(static_cast<char*>(ctx.workspace) + scratch.partials),
      .random = {}};
  if constexpr (std::is_same_v<G, __nv_bfloat16>) {
    p.random = {ctx.in<int32_t>(3), static_cast<uint64_t>(ctx.attributes.GetInt("key"))};
  }
  if (width % kPackSize<T> == 0 && Aligned(p.dy, dweight)) {
    SumRuns<kPackSize<T>>(p, ctx.stream);
  } else {
    SumRuns<1>(p, ctx.stream);
  }
}

void EmbeddingDw(const CudaContext& ctx) {
  if (ctx.outputs[0].type.dtype == graph::DType::kBFloat16) {
    return AddEmbeddings<__nv_bfloat16, __nv_bfloat16>(ctx);
  }
  DispatchCuda(ctx.inputs[1].type.dtype, [&]<typename T>() { AddEmbeddings<T, float>(ctx); });
}

template <typename T, int N>
__global__ __launch_bounds__(kThreads) void PositionDwKernel(const T* dy, const float* acc,
                                                             const int32_t* given, int batch,
                                                             int sequence, int rows, int width,
                                                             float* dposition) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int packs = width / N;
  const int row = static_cast<int>(i / packs), column = static_cast<int>(i % packs) * N;
  if (row >= rows) return;
  const int64_t place = int64_t{row} * width + column;
  float sum[N] = {};
  if (acc != nullptr) LoadFloats<N>(acc + place, sum);
  const int t = row - (given != nullptr ? *given : 0);
  if (t >= 0 && t < sequence) {
    const T* from = dy + int64_t{t} * width + column;
#pragma unroll 8
    for (int b = 0; b < batch; ++b) {
      const auto pack = *reinterpret_cast<const Pack<T, N>*>(from + int64_t{b} * sequence * width);
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += ToFloat(pack.values[j]);
    }
  }
  StoreFloats<N>(dposition + place, sum);
}

void PositionDw(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const T* dy = ctx.in<T>(0);
    const float* acc = ctx.in<float>(1);
    float* dposition = ctx.out<float>(0);
    const int rows = static_cast<int>(ctx.out_shape(0).dim(0));
    const int width = static_cast<int>(ctx.out_shape(0).dim(1));
    const auto launch = [&]<int N>() {
      PositionDwKernel<T, N><<<Blocks(int64_t{rows} * (width / N)), kThreads, 0, ctx.stream>>>(
          dy, acc, ctx.in<int32_t>(2), static_cast<int>(ctx.in_shape(0).dim(0)),
          static_cast<int>(ctx.in_shape(0).dim(1)), rows, width, dposition);
    };
    if (width % kPackSize<T> == 0 && Aligned(dy, acc, dposition)) {
      launch.template operator()<kPackSize<T>>();
    } else {
      launch.template operator()<1>();
    }
    gpu::CheckLaunch("position_dw");
  });
}

const CudaKernelRegistration kEmbeddingDw({"embedding_dw", &EmbeddingDw});
const CudaKernelRegistration kPositionDw({"position_dw", &PositionDw});

}  // namespace
}  // namespace plimsoll::ops
