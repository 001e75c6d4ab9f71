// Blockwise attention with an online softmax (Dao 2023, "FlashAttention-2", algorithm 1), for any
// shape, in float32 fused multiply-adds for any type in memory.
//
// A thread block has 64 queries of a head and loops over the keys, 64 at a time; the products are
// those of attention_tile.cuh. Heads wider than kWidth are computed in pieces of kWidth output
// columns, each by its own block, which needs all scores. FLOPs: 4·hd for each score of the tiles
// that the mask does not hide. Bytes: k and v once for every 64 queries, mostly from L2.
#include "gpu/check.h"
#include "ops/cuda/attention/attention_forward.cuh"
#include "ops/cuda/attention/attention_largest.cuh"
#include "ops/cuda/attention/attention_tile.cuh"

namespace plimsoll::ops {
namespace {

template <typename T, int kWidth, bool kDropout, typename Softcap>
__global__ __launch_bounds__(kTileThreads) void AttentionForwardKernel(
    const __grid_constant__ AttentionForwardArguments<T> a,
    const __grid_constant__ Softcap softcap) {
  __shared__ __align__(16) TileBuffers buffers;
  __shared__ __align__(16) float weights[kTile * kTile];
  const TilePlace at;
  const int64_t tiles = (a.queries + kTile - 1) / kTile;
  const int64_t pieces = (a.head + kWidth - 1) / kWidth;
  // Blocks with the last queries come first, because these see the most keys.
  const int64_t first_query = (tiles - 1 - blockIdx.x % tiles) * kTile;
  const int from = static_cast<int>(blockIdx.x / tiles % pieces) * kWidth;
  const int64_t bh = blockIdx.x / tiles / pieces;
  const int64_t b = bh / a.heads, h = bh % a.heads;
  const int64_t draw_row = a.dropout.Row(b, static_cast<int>(h));
  const int64_t position = a.position == nullptr ? 0 : *a.position;
  const int64_t all_keys = a.position == nullptr ? a.keys : position + a.queries;
  const int64_t keys = a.lengths == nullptr ? all_keys : min(all_keys, int64_t{a.lengths[b]});
  const int64_t queries = a.lengths == nullptr ? a.queries : keys;
  if (first_query >= queries) return;
  const int64_t kv = b * a.kv_batch + h / (a.heads / a.kv_heads) * a.kv_head;

  const auto rows = [&](const T* data, int64_t stride, int64_t first, int64_t end) {
    const int64_t count = end - first < kTile ? end - first : kTile;
    return TileRows<T>{data + first * stride, stride, static_cast<int>(count),
                       static_cast<int>(a.head), a.packed};
  };
  const TileRows<T> q = rows(a.q + b * a.q_batch + h * a.head, a.q_row, first_query, queries);
  int64_t seen = keys;
  if (a.causal && position + first_query + kTile < seen) seen = position + first_query + kTile;

  float largest[kTileRows], total[kTileRows], sum[kTileRows][kWidth / 8] = {};
  int64_t begin = 0;
  int first_seen[kTileRows] = {};
  if (a.ranges.cuts()) {
    const auto first_of = [&](int64_t query) {
      return a.ranges.First(b, static_cast<int>(position + min(query, queries - 1)));
    };
    begin = first_of(first_query) / kTile * kTile;
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) first_seen[i] = first_of(first_query + at.row + i);
  }
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    largest[i] = -INFINITY;
    total[i] = 0;
  }
  for (int64_t first_key = begin; first_key < seen; first_key += kTile) {
    float p[kTileRows][kTileColumns] = {};
    AddRowProducts(q, rows(a.k + kv, a.kv_row, first_key, keys), buffers, p);
    AttentionKeep keep(a.dropout);
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) {
      const int64_t query = first_query + at.row + i;
      const int64_t last = a.causal ? position + query : keys - 1;
      float row_largest = largest[i];
#pragma unroll
      for (int j = 0; j < kTileColumns; ++j) {
        const int64_t key = first_key + at.Column(j);
        const bool visible = key >= first_seen[i] && key <= last && key < keys;
        float score = p[i][j] * a.scale;
        if constexpr (Softcap::kCaps) {
          float slope;
          score = softcap.Score(score, slope);
        }
        p[i][j] = visible ? score : -INFINITY;
        row_largest = fmaxf(row_largest, p[i][j]);
      }
      row_largest = RowMax(row_largest);
      // While a row has only −∞, this keeps the exponents' arguments from becoming NaN.
      const float base = row_largest == -INFINITY ? 0.0f : row_largest;
      const float correction = expf(largest[i] - base);
      largest[i] = row_largest;
      float row_total = 0;
#pragma unroll
      for (int j = 0; j < kTileColumns; ++j) {
        p[i][j] = expf(p[i][j] - base);
        row_total += p[i][j];
      }
      total[i] = total[i] * correction + RowSum(row_total);
#pragma unroll
      for (int c = 0; c < kWidth / 8; ++c) sum[i][c] *= correction;
      if constexpr (kDropout) {
#pragma unroll
        for (int j = 0; j < kTileColumns; ++j) {
          p[i][j] *= keep.At(draw_row, query, first_key + at.Column(j));
        }
      }
    }
    StoreWeights(p, weights);
    AddWeightedRows<kWidth>(weights, rows(a.v + kv, a.kv_row, first_key, keys), from, buffers, sum);
  }

  uint32_t magnitude = 0;
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t query = first_query + at.row + i;
    if (query >= queries) continue;
    T* const out = a.out + ((b * a.queries + query) * a.heads + h) * a.head;
#pragma unroll
    for (int c = 0; c < kWidth / 8; ++c) {
      const int column = from + at.Column(c);
      if (column >= a.head) continue;
      const float value = sum[i][c] / total[i];
      out[column] = FromFloat<T>(value);
      magnitude = max(magnitude, MagnitudeBits(value));
    }
    if (a.lse != nullptr && from == 0 && threadIdx.x % 8 == 0) {
      a.lse[bh * a.queries + query] = largest[i] + logf(total[i]);
    }
  }
  if (a.largest != nullptr) AddStoredMagnitude<T>(magnitude, 1, a.largest);
}

}  // namespace

template <typename T>
void LaunchAttentionForward(const AttentionForwardArguments<T>& a, cudaStream_t stream,
                            const ScoreSoftcap& softcap) {
  const auto launch = [&]<int kWidth, bool kDropout>() {
    const int64_t tiles = (a.queries + kTile - 1) / kTile;
    const int64_t blocks = a.batch * a.heads * ((a.head + kWidth - 1) / kWidth) * tiles;
    DispatchSoftcap(softcap, [&](const auto& cap) {
      AttentionForwardKernel<T, kWidth, kDropout>
          <<<static_cast<unsigned>(blocks), kTileThreads, 0, stream>>>(a, cap);
    });
  };
  const bool drops = a.dropout.rng != nullptr;
  if (a.head <= 64) {
    drops ? launch.template operator()<64, true>() : launch.template operator()<64, false>();
  } else {
    drops ? launch.template operator()<128, true>() : launch.template operator()<128, false>();
  }
  gpu::CheckLaunch("attention");
}

template void LaunchAttentionForward(const AttentionForwardArguments<float>&, cudaStream_t,
                                     const ScoreSoftcap&);
template void LaunchAttentionForward(const AttentionForwardArguments<__nv_bfloat16>&, cudaStream_t,
                                     const ScoreSoftcap&);
template void LaunchAttentionForward(const AttentionForwardArguments<__half>&, cudaStream_t,
                                     const ScoreSoftcap&);

}  // namespace plimsoll::ops
