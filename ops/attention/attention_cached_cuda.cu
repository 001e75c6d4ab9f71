// attention_cached: the new keys and values go to the caches, then
//
//   few new tokens (generation)  a thread block takes kChunk positions of one head of one token: a
//                                thread has one key's score, then a warp every eighth value; a
//                                second kernel joins the chunks' maxima, sums and weighted values
//   many (a text to start from)  the blockwise kernel of training, with the position as the offset
//                                of the causal mask
//
// Bytes: the caches up to the tokens' positions, of a window those that it holds, for each token
// and query head (mostly from L2 when heads share keys). The position is on the device: blocks
// beyond it, or before the window, return at once. A position that doesn't fit stops the kernel,
// which the next checked call reports.
#include <algorithm>
#include <cmath>

#include "gpu/check.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_cached.h"
#include "ops/cuda/attention/attention_forward.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kChunk = static_cast<int>(kCachedAttentionChunk);
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kColumns = 128;  // columns of the weighted sum that are computed at a time
static_assert(kChunk == kThreads);

template <typename T>
struct Arguments {
  const T* qkv;
  T* keys;
  T* values;
  T* out;
  const int32_t* position;
  float* partial;  // [rows, window, heads, chunks, hd + 2]: weighted values, maximum, sum
  int64_t rows, window, heads, kv_heads, head, capacity;
  int64_t seen;  // the most keys that a token sees, itself included
  float scale;
  bool packed;

  __host__ __device__ int64_t Row() const { return (heads + 2 * kv_heads) * head; }
  __host__ __device__ int64_t Chunks() const { return (capacity + kChunk - 1) / kChunk; }
  // The number of tokens before the first one that new token i sees.
  __device__ int64_t Hidden(int64_t i) const { return max(int64_t{0}, *position + i + 1 - seen); }
};

// One thread for each new element of keys and values.
template <typename T>
__global__ void AppendKernel(const __grid_constant__ Arguments<T> a) {
  const int64_t position = *a.position;
  if (position < 0 || position + a.window > a.capacity) __trap();
  const int64_t width = a.kv_heads * a.head;
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= a.rows * a.window * 2 * width) return;
  const int64_t element = index % (2 * width), token = index / (2 * width);
  const int64_t r = token / a.window, i = token % a.window;
  const int64_t g = element % width / a.head, d = element % a.head;
  T* const cache = element < width ? a.keys : a.values;
  cache[((r * a.kv_heads + g) * a.capacity + position + i) * a.head + d] =
      a.qkv[token * a.Row() + a.heads * a.head + element];
}

template <typename T>
__device__ float Dot(const T* key, const float* query, int64_t head, bool packed) {
  constexpr int kPack = kPackSize<T>;
  float sum = 0;
  if (packed) {
#pragma unroll 4
    for (int64_t d = 0; d < head; d += kPack) {
      float values[kPack];
      LoadPack(key + d, values);
#pragma unroll
      for (int e = 0; e < kPack; ++e) sum = fmaf(values[e], query[d + e], sum);
    }
  } else {
    for (int64_t d = 0; d < head; ++d) sum = fmaf(ToFloat(key[d]), query[d], sum);
  }
  return sum;
}

// Block: (chunk, head, token). Dynamic shared memory: the query.
template <typename T, typename Softcap>
__global__ __launch_bounds__(kThreads) void AttendKernel(const __grid_constant__ Arguments<T> a,
                                                         const __grid_constant__ Softcap softcap) {
  extern __shared__ __align__(16) float query[];
  __shared__ float weights[kChunk];
  __shared__ float sums[kWarps][kColumns];
  const int64_t chunks = a.Chunks();
  const int64_t chunk = blockIdx.x % chunks;
  const int64_t token_head = blockIdx.x / chunks;  // the index (r·W + i)·H + h
  const int64_t h = token_head % a.heads, token = token_head / a.heads;
  // The keys [begin, count) of this chunk.
  const int64_t count = *a.position + token % a.window + 1 - chunk * kChunk;
  const int64_t begin = a.Hidden(token % a.window) - chunk * kChunk;
  if (count <= 0 || begin >= kChunk) return;
  const int64_t cache =
      (token / a.window * a.kv_heads + h / (a.heads / a.kv_heads)) * a.capacity + chunk * kChunk;

  const T* const q = a.qkv + token * a.Row() + h * a.head;
  for (int64_t d = threadIdx.x; d < a.head; d += kThreads) query[d] = ToFloat(q[d]) * a.scale;
  __syncthreads();
  const int j = threadIdx.x;
  const bool there = j < count && j >= begin;
  float score = there ? Dot(a.keys + (cache + j) * a.head, query, a.head, a.packed) : -INFINITY;
  if constexpr (Softcap::kCaps) {
    float slope;
    if (there) score = softcap.Score(score, slope);
  }
  float largest = WarpMax(score);
  if (threadIdx.x % kWarp == 0) weights[threadIdx.x / kWarp] = largest;
  __syncthreads();
  largest = weights[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) largest = fmaxf(largest, weights[w]);
  __syncthreads();
  const float base = largest == -INFINITY ? 0.0f : largest;
  const float weight = there ? expf(score - base) : 0.0f;
  const float total = BlockSum<kThreads>(weight, sums[0]);
  weights[j] = weight;
  __syncthreads();

  const bool alone = chunks == 1;
  float* const partial = a.partial + blockIdx.x * (a.head + 2);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int keys = count < kChunk ? static_cast<int>(count) : kChunk;
  const int first_key = begin > 0 ? static_cast<int>(begin) : 0;
  const T* const values = a.values + cache * a.head;
  for (int64_t first = 0; first < a.head; first += kColumns) {
    float sum[kColumns / kWarp] = {};
#pragma unroll 4
    for (int k = first_key + warp; k < keys; k += kWarps) {
#pragma unroll
      for (int c = 0; c < kColumns / kWarp; ++c) {
        const int64_t d = first + c * kWarp + lane;
        if (d < a.head) sum[c] = fmaf(weights[k], ToFloat(values[k * a.head + d]), sum[c]);
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns / kWarp; ++c) sums[warp][c * kWarp + lane] = sum[c];
    __syncthreads();
    const int64_t d = first + threadIdx.x;
    if (threadIdx.x < kColumns && d < a.head) {
      float all = sums[0][threadIdx.x];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) all += sums[w][threadIdx.x];
      if (alone) {
        a.out[token_head * a.head + d] = FromFloat<T>(all / total);
      } else {
        partial[d] = all;
      }
    }
    __syncthreads();
  }
  if (!alone && threadIdx.x == 0) {
    partial[a.head] = base;
    partial[a.head + 1] = total;
  }
}

// One block for each head of each token.
template <typename T>
__global__ void JoinKernel(const __grid_constant__ Arguments<T> a) {
  const int64_t token_head = blockIdx.x;
  const int64_t seen = *a.position + token_head / a.heads % a.window + 1;
  const int64_t chunks = (seen + kChunk - 1) / kChunk;
  const int64_t first = a.Hidden(token_head / a.heads % a.window) / kChunk;
  const int64_t stride = a.head + 2;
  const float* const partial = a.partial + token_head * a.Chunks() * stride;
  float base = -INFINITY;
  for (int64_t c = first; c < chunks; ++c) base = fmaxf(base, partial[c * stride + a.head]);
  float total = 0;
  for (int64_t c = first; c < chunks; ++c) {
    const float* const part = partial + c * stride + a.head;
    total += part[1] * expf(part[0] - base);
  }
  for (int64_t d = threadIdx.x; d < a.head; d += blockDim.x) {
    float sum = 0;
    for (int64_t c = first; c < chunks; ++c) {
      sum = fmaf(partial[c * stride + d], expf(partial[c * stride + a.head] - base), sum);
    }
    a.out[token_head * a.head + d] = FromFloat<T>(sum / total);
  }
}

template <typename T>
void Blockwise(const Arguments<T>& c, const ScoreSoftcap& softcap, cudaStream_t stream) {
  AttentionForwardArguments<T> a{};
  a.q = c.qkv;
  a.k = c.keys;
  a.v = c.values;
  a.out = c.out;
  a.batch = c.rows;
  a.heads = c.heads;
  a.kv_heads = c.kv_heads;
  a.head = c.head;
  a.queries = c.window;
  a.keys = c.capacity;
  a.q_row = c.Row();
  a.q_batch = c.window * c.Row();
  a.kv_row = c.head;
  a.kv_head = c.capacity * c.head;
  a.kv_batch = c.kv_heads * a.kv_head;
  a.causal = true;
  a.position = c.position;
  a.ranges.window = static_cast<int>(c.seen);
  a.ranges.sequence = static_cast<int>(c.capacity);
  a.scale = c.scale;
  a.packed = c.packed;
  LaunchAttentionForward(a, stream, softcap);
}

template <typename T>
void FewTokens(const Arguments<T>& a, const ScoreSoftcap& softcap, cudaStream_t stream) {
  const int64_t token_heads = a.rows * a.window * a.heads;
  DispatchSoftcap(softcap, [&](const auto& cap) {
    AttendKernel<T><<<static_cast<unsigned>(token_heads * a.Chunks()), kThreads,
                      static_cast<size_t>(a.head) * sizeof(float), stream>>>(a, cap);
  });
  gpu::CheckLaunch("attention_cached");
  if (a.Chunks() == 1) return;
  JoinKernel<T><<<static_cast<unsigned>(token_heads), 64, 0, stream>>>(a);
  gpu::CheckLaunch("attention_cached: chunks");
}

template <typename T>
void Run(const CudaContext& ctx) {
  const graph::Shape& qkv = ctx.in_shape(0);
  const graph::Shape& keys = ctx.in_shape(1);
  for (const size_t cache : {1, 2}) {
    if (ctx.out<void>(cache) == ctx.in<void>(cache)) continue;
    gpu::Check(cudaMemcpyAsync(ctx.out<void>(cache), ctx.in<void>(cache),
                               static_cast<size_t>(ctx.inputs[cache].type.bytes()),
                               cudaMemcpyDeviceToDevice, ctx.stream),
               "cudaMemcpyAsync");
  }
  Arguments<T> a{};
  a.qkv = ctx.in<T>(0);
  a.keys = ctx.out<T>(1);
  a.values = ctx.out<T>(2);
  a.out = ctx.out<T>(0);
  a.position = ctx.in<int32_t>(3);
  a.partial = static_cast<float*>(ctx.workspace);
  a.rows = qkv.dim(0);
  a.window = qkv.dim(1);
  a.heads = ctx.attributes.GetInt("heads");
  a.kv_heads = keys.dim(1);
  a.capacity = keys.dim(2);
  a.head = keys.dim(3);
  const int64_t seen = AttentionWindow(ctx.attributes);
  a.seen = seen == 0 ? a.capacity : std::min(seen, a.capacity);
  a.scale = static_cast<float>(AttentionScale(ctx.attributes, a.head));
  const ScoreSoftcap softcap = SoftcapOf(ctx.attributes, a.scale);
  a.packed = a.head % kPackSize<T> == 0;
  const int64_t elements = a.rows * a.window * 2 * a.kv_heads * a.head;
  AppendKernel<T>
      <<<static_cast<unsigned>((elements + kThreads - 1) / kThreads), kThreads, 0, ctx.stream>>>(a);
  gpu::CheckLaunch("attention_cached: append");
  if (a.window > kCachedAttentionFewTokens) {
    Blockwise(a, softcap, ctx.stream);
  } else {
    FewTokens(a, softcap, ctx.stream);
  }
}

void AttentionCached(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() { Run<T>(ctx); });
}

const CudaKernelRegistration kAttentionCached({"attention_cached", &AttentionCached});

}  // namespace
}  // namespace plimsoll::ops
