// Gradients of blockwise attention (the formulas are in attention_backward.cuh) for any shape, in
// float32 fused multiply-adds for any type in memory:
//
//   delta  δ: a warp for each query of a head. Bytes: out, dout, 4 for each query.
//   dq     a thread block has 64 queries of a head and loops over the keys
//   dkdv   a thread block has 64 keys of a key-value head and loops over the queries of its group
//
// Each gradient has one writer and one order of summation. Therefore scores and dP are computed
// twice: 7 products instead of 5. Wide heads are computed in pieces of kWidth columns, each of
// which needs all scores.
#include "gpu/check.h"
#include "ops/cuda/attention/attention_backward.cuh"
#include "ops/cuda/attention/attention_largest.cuh"
#include "ops/cuda/reduce.cuh"

namespace plimsoll::ops {
namespace {

template <typename T>
__global__ void AttentionDeltaKernel(const __grid_constant__ AttentionBackwardArguments<T> a) {
  const int64_t row =
      (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;  // index of (b, i, h)
  if (row >= a.batch * a.sequence * a.heads) return;
  const T* const out = a.out + row * a.head;
  const T* const dout = a.dout + row * a.head;
  float sum = 0;
  for (int64_t d = threadIdx.x % kWarp; d < a.head; d += kWarp) {
    sum = fmaf(ToFloat(out[d]), ToFloat(dout[d]), sum);
  }
  sum = WarpSum(sum);
  const int64_t h = row % a.heads, i = row / a.heads % a.sequence, b = row / a.heads / a.sequence;
  if (threadIdx.x % kWarp == 0) a.delta[(b * a.heads + h) * a.sequence + i] = sum;
}

// P∘(dP − δ), the gradient of a score before its scale, and P∘keep. Both are 0 if `visible` is
// false.
struct ScoreGradient {
  template <typename Softcap>
  __device__ ScoreGradient(bool visible, float score, float dp, float lse, float delta, float keep,
                           const Softcap& softcap) {
    [[maybe_unused]] float slope = 1;
    if constexpr (Softcap::kCaps) score = softcap.Score(score, slope);
    const float p = visible ? expf(score - lse) : 0.0f;
    weight = p * keep;
    gradient = visible ? p * (dp * keep - delta) : 0.0f;
    if constexpr (Softcap::kCaps) gradient *= slope;
  }
  float weight, gradient;
};

template <typename T, int kWidth, bool kDropout, typename Softcap>
__global__ __launch_bounds__(kTileThreads) void AttentionDqKernel(
    const __grid_constant__ AttentionBackwardArguments<T> a,
    const __grid_constant__ Softcap softcap) {
  __shared__ __align__(16) TileBuffers buffers;
  __shared__ __align__(16) float weights[kTile * kTile];
  const TilePlace at;
  const int64_t tiles = (a.sequence + kTile - 1) / kTile;
  const int64_t pieces = (a.head + kWidth - 1) / kWidth;
  const int64_t first_query = (tiles - 1 - blockIdx.x % tiles) * kTile;
  const int from = static_cast<int>(blockIdx.x / tiles % pieces) * kWidth;
  const int64_t bh = blockIdx.x / tiles / pieces;
  const int64_t b = bh / a.heads, h = bh % a.heads;
  const int64_t draw_row = a.dropout.Row(b, static_cast<int>(h));
  const int64_t key_head = a.heads + h / (a.heads / a.kv_heads);
  const int64_t length = a.Length(b);
  if (first_query >= length) return;
  const TileRows<T> q = a.PackedRows(b, first_query, h);
  const TileRows<T> dout = a.DoutRows(b, first_query, h);

  float lse[kTileRows], delta[kTileRows];
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t query = first_query + at.row + i;
    const bool there = query < length;
    lse[i] = there ? a.lse[bh * a.sequence + query] : 0.0f;
    delta[i] = there ? a.delta[bh * a.sequence + query] : 0.0f;
  }
  float sum[kTileRows][kWidth / 8] = {};
  const int64_t seen = a.causal && first_query + kTile < length ? first_query + kTile : length;
  int64_t begin = 0;
  int first_seen[kTileRows] = {};
  if (a.ranges.cuts()) {
    const auto first_of = [&](int64_t query) {
      return a.ranges.First(b, static_cast<int>(min(query, length - 1)));
    };
    begin = first_of(first_query) / kTile * kTile;
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) first_seen[i] = first_of(first_query + at.row + i);
  }
  for (int64_t first_key = begin; first_key < seen; first_key += kTile) {
    const TileRows<T> k = a.PackedRows(b, first_key, key_head);
    float s[kTileRows][kTileColumns] = {}, dp[kTileRows][kTileColumns] = {};
    AddRowProducts(q, k, buffers, s);
    AddRowProducts(dout, a.PackedRows(b, first_key, key_head + a.kv_heads), buffers, dp);
    AttentionKeep keep(a.dropout);
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) {
      const int64_t query = first_query + at.row + i;
#pragma unroll
      for (int j = 0; j < kTileColumns; ++j) {
        const int64_t key = first_key + at.Column(j);
        const bool visible =
            query < length && key < length && key >= first_seen[i] && (!a.causal || key <= query);
        float kept = 1;
        if constexpr (kDropout) kept = keep.At(draw_row, query, key);
        const ScoreGradient gradient(visible, s[i][j] * a.scale, dp[i][j], lse[i], delta[i], kept,
                                     softcap);
        s[i][j] = gradient.gradient;
      }
    }
    StoreWeights(s, weights);
    AddWeightedRows<kWidth>(weights, k, from, buffers, sum);
  }
  uint32_t magnitude = 0;
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t query = first_query + at.row + i;
    if (query >= length) continue;
    T* const dq = a.dqkv + a.Packed(b, query, h);
#pragma unroll
    for (int c = 0; c < kWidth / 8; ++c) {
      const int column = from + at.Column(c);
      if (column >= a.head) continue;
      const float value = sum[i][c] * a.scale;
      dq[column] = FromFloat<T>(value);
      magnitude = max(magnitude, MagnitudeBits(value));
    }
  }
  if (a.largest != nullptr) AddStoredMagnitude<T>(magnitude, 1, a.largest);
}

template <typename T, int kWidth, bool kDropout, typename Softcap>
__global__ __launch_bounds__(kTileThreads) void AttentionDkdvKernel(
    const __grid_constant__ AttentionBackwardArguments<T> a,
    const __grid_constant__ Softcap softcap) {
  __shared__ __align__(16) TileBuffers buffers;
  __shared__ __align__(16) float weights[kTile * kTile];
  const TilePlace at;
  const int64_t tiles = (a.sequence + kTile - 1) / kTile;
  const int64_t pieces = (a.head + kWidth - 1) / kWidth;
  const int64_t first_key = blockIdx.x % tiles * kTile;  // the first keys have the most queries
  const int from = static_cast<int>(blockIdx.x / tiles % pieces) * kWidth;
  const int64_t bg = blockIdx.x / tiles / pieces;
  const int64_t b = bg / a.kv_heads, g = bg % a.kv_heads;
  const int64_t group = a.heads / a.kv_heads;
  const int64_t length = a.Length(b);
  if (first_key >= length) return;
  const TileRows<T> k = a.PackedRows(b, first_key, a.heads + g);
  const TileRows<T> v = a.PackedRows(b, first_key, a.heads + a.kv_heads + g);

  int64_t end = length;  // the end of the queries that see any of the keys
  if (a.ranges.cuts()) {
    end = kTile * a.ranges.EndTile(b, kTile, static_cast<int>(first_key) + kTile,
                                   static_cast<int>(first_key / kTile),
                                   static_cast<int>((length + kTile - 1) / kTile));
    end = min(end, length);
  }

  float dk[kTileRows][kWidth / 8] = {}, dv[kTileRows][kWidth / 8] = {};
  for (int64_t h = g * group; h < (g + 1) * group; ++h) {
    const int64_t bh = b * a.heads + h;
    const int64_t draw_row = a.dropout.Row(b, static_cast<int>(h));
    for (int64_t first_query = a.causal ? first_key : 0; first_query < end; first_query += kTile) {
      const TileRows<T> q = a.PackedRows(b, first_query, h);
      const TileRows<T> dout = a.DoutRows(b, first_query, h);
      // The rows of s and dp are keys, their columns are queries.
      float s[kTileRows][kTileColumns] = {}, dp[kTileRows][kTileColumns] = {};
      AddRowProducts(k, q, buffers, s);
      AddRowProducts(v, dout, buffers, dp);
      AttentionKeep keep(a.dropout);
#pragma unroll
      for (int j = 0; j < kTileColumns; ++j) {
        const int64_t query = first_query + at.Column(j);
        const bool there = query < length;
        const float lse = there ? a.lse[bh * a.sequence + query] : 0.0f;
        const float delta = there ? a.delta[bh * a.sequence + query] : 0.0f;
        int first_seen = 0;
        if (there && a.ranges.cuts()) first_seen = a.ranges.First(b, static_cast<int>(query));
#pragma unroll
        for (int i = 0; i < kTileRows; ++i) {
          const int64_t key = first_key + at.row + i;
          const bool visible =
              there && key < length && key >= first_seen && (!a.causal || key <= query);
          float kept = 1;
          if constexpr (kDropout) kept = keep.At(draw_row, query, key);
          const ScoreGradient gradient(visible, s[i][j] * a.scale, dp[i][j], lse, delta, kept,
                                       softcap);
          s[i][j] = gradient.weight;
          dp[i][j] = gradient.gradient;
        }
      }
      StoreWeights(s, weights);
      AddWeightedRows<kWidth>(weights, dout, from, buffers, dv);
      __syncwarp();
      StoreWeights(dp, weights);
      AddWeightedRows<kWidth>(weights, q, from, buffers, dk);
    }
  }
  uint32_t magnitude = 0;
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t key = first_key + at.row + i;
    if (key >= length) continue;
    T* const dk_row = a.dqkv + a.Packed(b, key, a.heads + g);
    T* const dv_row = a.dqkv + a.Packed(b, key, a.heads + a.kv_heads + g);
#pragma unroll
    for (int c = 0; c < kWidth / 8; ++c) {
      const int column = from + at.Column(c);
      if (column >= a.head) continue;
      const float dk_value = dk[i][c] * a.scale, dv_value = dv[i][c];
      dk_row[column] = FromFloat<T>(dk_value);
      dv_row[column] = FromFloat<T>(dv_value);
      magnitude = max(magnitude, max(MagnitudeBits(dk_value), MagnitudeBits(dv_value)));
    }
  }
  if (a.largest != nullptr) AddStoredMagnitude<T>(magnitude, 1, a.largest);
}

}  // namespace

template <typename T>
void LaunchAttentionBackward(const AttentionBackwardArguments<T>& a, cudaStream_t stream,
                             const ScoreSoftcap& softcap) {
  constexpr int kThreads = 256;
  const int64_t rows = a.batch * a.sequence * a.heads;
  const int64_t warps = kThreads / kWarp;
  AttentionDeltaKernel<T>
      <<<static_cast<unsigned>((rows + warps - 1) / warps), kThreads, 0, stream>>>(a);
  gpu::CheckLaunch("attention_backward: delta");
  const int64_t tiles = (a.sequence + kTile - 1) / kTile;
  const auto blocks = [&](int64_t heads, int64_t width) {
    return static_cast<unsigned>(a.batch * heads * ((a.head + width - 1) / width) * tiles);
  };
  const auto launch = [&]<bool kDropout>(const auto& cap) {
    if (a.head <= 64) {
      AttentionDqKernel<T, 64, kDropout><<<blocks(a.heads, 64), kTileThreads, 0, stream>>>(a, cap);
    } else {
      AttentionDqKernel<T, 128, kDropout>
          <<<blocks(a.heads, 128), kTileThreads, 0, stream>>>(a, cap);
    }
    gpu::CheckLaunch("attention_backward: dq");
    AttentionDkdvKernel<T, 64, kDropout>
        <<<blocks(a.kv_heads, 64), kTileThreads, 0, stream>>>(a, cap);
    gpu::CheckLaunch("attention_backward: dk and dv");
  };
  DispatchSoftcap(softcap, [&](const auto& cap) {
    a.dropout.rng != nullptr ? launch.template operator()<true>(cap)
                             : launch.template operator()<false>(cap);
  });
}

template void LaunchAttentionBackward(const AttentionBackwardArguments<float>&, cudaStream_t,
                                      const ScoreSoftcap&);
template void LaunchAttentionBackward(const AttentionBackwardArguments<__nv_bfloat16>&,
                                      cudaStream_t, const ScoreSoftcap&);
template void LaunchAttentionBackward(const AttentionBackwardArguments<__half>&, cudaStream_t,
                                      const ScoreSoftcap&);

}  // namespace plimsoll::ops
