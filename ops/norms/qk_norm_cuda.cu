// Forward, for each query and key head: y = x · rstd · weight (definition in qk_norm.h). With
// unit offset, read 1 + weight for weight, here and below. A few lanes of a warp, as many as the
// head has packs of 16 bytes, take a head and read it twice, the second time from the cache. Heads
// that don't consist of full packs are processed element by element. Value heads are copied, unless
// y is qkv's memory. Bytes: 2·N·(H+2G)·hd·s for N tokens.
//
// Backward, with x̂ = x · rstd and ĝ = dy · weight:
//   dx = rstd · (ĝ − x̂ · Σ(ĝ·x̂) / hd),   dweight = Σ_tokens Σ_heads dy · x̂.
// blockIdx.y says whether a block has query, key or value heads. Lanes take heads as in the forward
// pass, and keep their columns' parts of dweight in registers from head to head. A block adds its
// lanes' parts in their order and stores a partial sum in the workspace;
// ops/cuda/column_sums.cuh adds those. Blocks, and so the order of every sum, depend only on the
// shape. Heads without full packs, or wider ones, take a block each. Bytes: 3·N·(H+2G)·hd·s.
#include <algorithm>
#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/column_sums.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/norm_result.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/norms/qk_norm_partials.h"
#include "ops/norms/unit_offset.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;

struct Heads {
  int64_t tokens;
  int queries, keys;
  int width;  // hd

  __host__ __device__ int normed() const { return queries + keys; }
  __host__ __device__ int all() const { return queries + 2 * keys; }
};

Heads HeadsOf(const CudaContext& ctx) {
  const graph::Shape& shape = ctx.in_shape(0);
  const int queries = static_cast<int>(ctx.attributes.GetInt("heads"));
  const int keys = static_cast<int>(ctx.attributes.GetInt("kv_heads"));
  return {shape.rows(), queries, keys, static_cast<int>(shape.dim(2) / (queries + 2 * keys))};
}

// The number of lanes that share a head of `packs` packs: a power of two from 4 to 32.
int LanesFor(int packs) {
  int lanes = 4;
  while (lanes < kWarp && lanes < packs) lanes *= 2;
  return lanes;
}

// The sum over each group of `lanes` lanes. All lanes of the warp call it.
__device__ float GroupSum(float x, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

template <typename T>
struct Forward {
  const T* in;
  const T* q_weight;
  const T* k_weight;
  T* out;       // may be in
  float* rstd;  // 1 / standard deviation of each row; nullptr if not requested
  Heads heads;
  int of_token;  // number of processed heads of a token; without value heads if these are in place
  float eps;
  float offset;  // added to the weights
};

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) QkNormKernel(const Forward<T> p, int lanes) {
  const int group = threadIdx.x / lanes, lane = threadIdx.x % lanes, groups = kThreads / lanes;
  const int64_t item = int64_t{blockIdx.x} * groups + group;
  const bool exists = item < p.heads.tokens * p.of_token;
  const int64_t token = item / p.of_token;
  const int head = static_cast<int>(item - token * p.of_token);
  const int64_t at = (token * p.heads.all() + head) * p.heads.width;
  const int packs = p.heads.width / N;
  const bool normed = exists && head < p.heads.normed();
  float squares = 0;
  if (normed) {
    for (int k = lane; k < packs; k += lanes) {
      float x[N];
      LoadPack<N>(p.in + at + k * N, x);
#pragma unroll
      for (int i = 0; i < N; ++i) squares += x[i] * x[i];
    }
  }
  squares = GroupSum(squares, lanes);
  if (!exists) return;
  const float rstd = rsqrtf(squares / static_cast<float>(p.heads.width) + p.eps);
  const T* const weight = head < p.heads.queries ? p.q_weight : p.k_weight;
  for (int k = lane; k < packs; k += lanes) {
    float x[N];
    LoadPack<N>(p.in + at + k * N, x);
    if (normed) {
      float w[N];
      LoadPack<N>(weight + k * N, w);
      ToNormWeights(w, p.offset);
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = x[i] * rstd * w[i];
    }
    StorePack<N>(p.out + at + k * N, x);
  }
  if (normed && lane == 0 && p.rstd != nullptr) p.rstd[token * p.heads.normed() + head] = rstd;
}

template <typename T>
void RunForward(const CudaContext& ctx) {
  const Heads heads = HeadsOf(ctx);
  const bool in_place = ctx.in<T>(0) == ctx.out<T>(0);
  const Forward<T> p = {.in = ctx.in<T>(0),
                        .q_weight = ctx.in<T>(1),
                        .k_weight = ctx.in<T>(2),
                        .out = ctx.out<T>(0),
                        .rstd = ctx.out<float>(1),
                        .heads = heads,
                        .of_token = in_place ? heads.normed() : heads.all(),
                        .eps = static_cast<float>(ctx.attributes.GetReal("eps")),
                        .offset = NormOffset(HasUnitOffset(ctx.attributes))};
  const int64_t items = heads.tokens * p.of_token;
  if (items == 0) return;
  constexpr int N = kPackSize<T>;
  const bool packed = heads.width % N == 0 && Aligned(p.in, p.out, p.q_weight, p.k_weight);
  const int lanes = LanesFor(packed ? heads.width / N : heads.width);
  const int groups = kThreads / lanes;
  const auto blocks = static_cast<unsigned>((items + groups - 1) / groups);
  if (packed) {
    QkNormKernel<T, N><<<blocks, kThreads, 0, ctx.stream>>>(p, lanes);
  } else {
    QkNormKernel<T, 1><<<blocks, kThreads, 0, ctx.stream>>>(p, lanes);
  }
  gpu::CheckLaunch("qk_norm");
}

template <typename T>
struct Backward {
  const T* in;
  const T* weight[2];  // weights of queries, and of keys
  const float* rstd;
  const T* dy;
  T* dx;            // may be the memory of dy; nullptr if not requested
  float* partials;  // [blocks][sums][width]
  int sums;
  int sum_of[2];  // indices of the sums for queries, and for keys; -1 if not requested
  Heads heads;
  float offset;  // added to the weights

  // The number of items of blockIdx.y, one for each head of a token: queries or keys.
  __device__ int count() const { return blockIdx.y == 0 ? heads.queries : heads.keys; }
  __device__ int first() const {
    return blockIdx.y == 0 ? 0 : blockIdx.y == 1 ? heads.queries : heads.normed();
  }
  __device__ float* partial() const {
    const int sum = sum_of[blockIdx.y];
    return sum < 0 ? nullptr : partials + (int64_t{blockIdx.x} * sums + sum) * heads.width;
  }
};

// Copies the value heads of a block: their dx is dy.
template <typename T>
__device__ void CopyValues(const Backward<T>& p) {
  const int width = p.heads.keys * p.heads.width;  // width of a token's values
  const int64_t elements = p.heads.tokens * width;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements;
       i += int64_t{gridDim.x} * kThreads) {
    const int64_t token = i / width;
    const int64_t at =
        (token * p.heads.all() + p.heads.normed()) * p.heads.width + (i - token * width);
    p.dx[at] = p.dy[at];
  }
}

// `lanes` lanes share a head, with kPacks packs each.
template <typename T, int N, int kPacks>
__global__ void __launch_bounds__(kThreads) QkNormBackwardKernel(const Backward<T> p, int lanes) {
  __shared__ float shared[kThreads * N * kPacks];  // [groups][kPacks][lanes][N]
  if (blockIdx.y == 2) return CopyValues(p);
  const int group = threadIdx.x / lanes, lane = threadIdx.x % lanes, groups = kThreads / lanes;
  const int count = p.count(), first = p.first(), width = p.heads.width, packs = width / N;
  const int64_t items = p.heads.tokens * count;
  const T* const from_weight = p.weight[blockIdx.y];
  float weight[kPacks][N] = {}, dweight[kPacks][N] = {};
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int pack = k * lanes + lane;
    if (pack < packs) LoadPack<N>(from_weight + pack * N, weight[k]);
    ToNormWeights(weight[k], p.offset);
  }
  // All threads of a block make the same number of rounds.
  for (int64_t round = int64_t{blockIdx.x} * groups; round < items;
       round += int64_t{gridDim.x} * groups) {
    const int64_t item = round + group;
    const bool exists = item < items;
    const int64_t token = item / count;
    const int head = first + static_cast<int>(item - token * count);
    const int64_t at = (token * p.heads.all() + head) * width;
    const float rstd = exists ? p.rstd[token * p.heads.normed() + head] : 0.0f;
    float normal[kPacks][N] = {}, g[kPacks][N] = {};
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int pack = k * lanes + lane;
      if (!exists || pack >= packs) continue;
      LoadPack<N>(p.in + at + pack * N, normal[k]);
      LoadPack<N>(p.dy + at + pack * N, g[k]);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        normal[k][i] *= rstd;
        dweight[k][i] += g[k][i] * normal[k][i];
        g[k][i] *= weight[k][i];
        sum += g[k][i] * normal[k][i];
      }
    }
    sum = GroupSum(sum, lanes);
    if (p.dx == nullptr) continue;
    const float mean = sum / static_cast<float>(width);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int pack = k * lanes + lane;
      if (!exists || pack >= packs) continue;
      float dx[N];
#pragma unroll
      for (int i = 0; i < N; ++i) dx[i] = (g[k][i] - normal[k][i] * mean) * rstd;
      StorePack<N>(p.dx + at + pack * N, dx);
    }
  }
  float* const partial = p.partial();
  if (partial == nullptr) return;
  const int row = kPacks * lanes * N;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      shared[group * row + (k * lanes + lane) * N + i] = dweight[k][i];
    }
  }
  __syncthreads();
  for (int column = threadIdx.x; column < width; column += kThreads) {
    float total = 0;
    for (int i = 0; i < groups; ++i) total += shared[i * row + column];
    partial[column] = total;
  }
}

// For any width and alignment: a block takes a head and reads it twice; a thread adds its columns
// of every head that the block takes to the partial sums in the workspace.
template <typename T>
__global__ void __launch_bounds__(kThreads) QkNormBackwardAnyKernel(const Backward<T> p) {
  __shared__ float shared[2][kThreads / kWarp];
  if (blockIdx.y == 2) return CopyValues(p);
  const int count = p.count(), first = p.first(), width = p.heads.width;
  const int64_t items = p.heads.tokens * count;
  const T* const weight = p.weight[blockIdx.y];
  float* const partial = p.partial();
  if (partial != nullptr) {
    for (int i = threadIdx.x; i < width; i += kThreads) partial[i] = 0;
  }
  int buffer = 0;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x, buffer ^= 1) {
    const int64_t token = item / count;
    const int head = first + static_cast<int>(item - token * count);
    const int64_t at = (token * p.heads.all() + head) * width;
    const float rstd = p.rstd[token * p.heads.normed() + head];
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += kThreads) {
      const float d = ToFloat(p.dy[at + i]), normal = ToFloat(p.in[at + i]) * rstd;
      sum += d * NormWeight(ToFloat(weight[i]), p.offset) * normal;
      if (partial != nullptr) partial[i] += d * normal;
    }
    sum = BlockSum<kThreads>(sum, shared[buffer]);
    if (p.dx == nullptr) continue;
    const float mean = sum / static_cast<float>(width);
    for (int i = threadIdx.x; i < width; i += kThreads) {
      const float g = ToFloat(p.dy[at + i]) * NormWeight(ToFloat(weight[i]), p.offset);
      const float normal = ToFloat(p.in[at + i]) * rstd;
      p.dx[at + i] = FromFloat<T>((g - normal * mean) * rstd);
    }
  }
}

template <typename T>
void RunBackward(const CudaContext& ctx) {
  const Heads heads = HeadsOf(ctx);
  const bool wants_q = ctx.has_output(1), wants_k = ctx.has_output(2);
  Backward<T> p = {.in = ctx.in<T>(0),
                   .weight = {ctx.in<T>(1), ctx.in<T>(2)},
                   .rstd = ctx.in<float>(3),
                   .dy = ctx.in<T>(4),
                   .dx = ctx.out<T>(0),
                   .partials = static_cast<float*>(ctx.workspace),
                   .sums = int{wants_q} + int{wants_k},
                   .sum_of = {wants_q ? 0 : -1, wants_k ? int{wants_q} : -1},
                   .heads = heads,
                   .offset = NormOffset(HasUnitOffset(ctx.attributes))};
  const int64_t partials = QkNormPartials(heads.tokens * heads.queries);
  const bool copies = p.dx != nullptr && p.dx != p.dy;
  const dim3 grid(static_cast<unsigned>(partials), copies ? 3 : 2);
  constexpr int N = kPackSize<T>;
  const int packs = heads.width / N;
  const bool packed = heads.width % N == 0 && packs <= 2 * kWarp &&
                      Aligned(p.in, p.weight[0], p.weight[1], p.dy, p.dx);
  if (!packed) {
    QkNormBackwardAnyKernel<T><<<grid, kThreads, 0, ctx.stream>>>(p);
  } else if (packs <= kWarp) {
    QkNormBackwardKernel<T, N, 1><<<grid, kThreads, 0, ctx.stream>>>(p, LanesFor(packs));
  } else {
    QkNormBackwardKernel<T, N, 2><<<grid, kThreads, 0, ctx.stream>>>(p, kWarp);
  }
  gpu::CheckLaunch("qk_norm_backward");
  if (p.sums == 0) return;
  ColumnSums sums = {
      .partials = p.partials, .count = partials, .width = heads.width, .sums = p.sums};
  for (int i = 0; i < 2; ++i) {
    if (p.sum_of[i] < 0) continue;
    sums.acc[p.sum_of[i]] = ctx.in<float>(5 + i);
    sums.out[p.sum_of[i]] = ctx.out<float>(1 + i);
  }
  LaunchColumnSums(sums, ctx);
}

void QkNorm(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() { RunForward<T>(ctx); });
}

void QkNormBackward(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() { RunBackward<T>(ctx); });
}

const CudaKernelRegistration kForward({"qk_norm", &QkNorm});
const CudaKernelRegistration kBackward({"qk_norm_backward", &QkNormBackward});

}  // namespace
}  // namespace plimsoll::ops
