// Blockwise attention with an online softmax (Dao 2023, "FlashAttention-2", algorithm 1) by
// mma.sync: bf16, fp16, and float32 with products in TF32.
//
// A thread block has 64 or 128 queries of a head, a warp 16 or 32 of them, and loops over the keys;
// the next keys and values are copied while the current ones are multiplied. FLOPs: 4·hd for each
// score of the tiles that the mask does not hide. Bytes: q and out once, k and v once for each
// thread block, mostly from L2.
#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/cuda/attention/attention_mma.cuh"
#include "ops/cuda/attention/attention_mma_tiles.cuh"

namespace plimsoll::ops {

namespace {

template <typename T, int kWidth>
struct ForwardShape {
  static constexpr bool kNarrow = kWidth <= 64;
  // Whether q is held in registers. Narrow float32 heads have more warps at a time instead.
  static constexpr bool kHeld = kWidth <= 128 && !(kNarrow && kIsTf32<T>);
  static constexpr int kBlocks = kNarrow ? 2 : 1;  // number of blocks of 16 queries for a warp
  static constexpr int kQueries = kMmaWarps * kBlocks * 16;
  static constexpr int kHalf = kIsTf32<T> ? 2 : 1;                 // with twice the bytes, half the
                                                                   // keys fit
  static constexpr int kKeys = (kWidth <= 128 ? 64 : 32) / kHalf;  // keys at a time
  static constexpr int kTile = kKeys * MmaRowBytes<T>(kWidth);
  static constexpr int kRows = kQueries * MmaRowBytes<T>(kWidth);
  // Two stages of keys and values. Held queries are copied through the second one.
  static constexpr int kStage = 2 * kTile;
  static constexpr int kQ = kHeld ? kStage : 2 * kStage;
  static constexpr int kBytes = kHeld ? 2 * kStage : 2 * kStage + kRows;
  static_assert(kQ + kRows <= kBytes);
  // The number of thread blocks on a multiprocessor, which limits registers.
  static constexpr int kResident = kWidth <= 128 && kNarrow != kHeld ? 3 : 2;
};

// Weights stay below 2 to this power, until they are divided by their sum.
constexpr float kMostExponent = 8;

template <typename T, int kWidth, bool kDropout, bool kRanges, typename Softcap,
          typename Shape = ForwardShape<T, kWidth>>
__global__ __launch_bounds__(kMmaThreads, Shape::kResident) void MmaForwardKernel(
    const __grid_constant__ AttentionForwardArguments<T> a,
    const __grid_constant__ Softcap softcap) {
#if __CUDA_ARCH__ >= 800
  constexpr int kBlocks = Shape::kBlocks, kKeys = Shape::kKeys;
  using Left = std::conditional_t<Shape::kHeld, HeldLeft<T, kBlocks, kWidth>,
                                  SharedLeft<T, kBlocks, kWidth>>;
  const uint32_t memory = SharedAddress(MmaMemory());
  const int lane = threadIdx.x % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int head = static_cast<int>(a.head), heads = static_cast<int>(a.heads);
  const int tiles = static_cast<int>((a.queries + Shape::kQueries - 1) / Shape::kQueries);
  // Blocks with the last queries come first, because these see the most keys.
  const int first_query = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * Shape::kQueries;
  const int64_t bh = blockIdx.x / tiles;
  const int64_t b = bh / heads, h = bh % heads;
  const int keys =
      static_cast<int>(a.lengths == nullptr ? a.keys : min(a.keys, int64_t{a.lengths[b]}));
  const int queries = a.lengths == nullptr ? static_cast<int>(a.queries) : keys;
  if (first_query >= queries) return;
  const int64_t kv = b * a.kv_batch + h / (heads / a.kv_heads) * a.kv_head;
  const int seen = a.causal ? min(keys, first_query + Shape::kQueries) : keys;
  const int steps = (seen + kKeys - 1) / kKeys;
  const int begin = kRanges ? a.ranges.First(b, first_query) / kKeys : 0;

  const MmaCopy<T, kKeys, kWidth, kMmaThreads> k_copy(a.k + kv, a.kv_row, keys, head);
  const MmaCopy<T, kKeys, kWidth, kMmaThreads> v_copy(a.v + kv, a.kv_row, keys, head);
  const auto copy = [&](int step) {
    const uint32_t to = memory + (step - begin) % 2 * Shape::kStage;
    k_copy.Start(to, step * kKeys);
    v_copy.Start(to + Shape::kTile, step * kKeys);
    CommitCopies();
  };
  const MmaCopy<T, Shape::kQueries, kWidth, kMmaThreads> q_copy(a.q + b * a.q_batch + h * a.head,
                                                                a.q_row, queries, head);
  q_copy.Start(memory + Shape::kQ, first_query);
  copy(begin);
  WaitForOwnCopies<0>();
  q_copy.Round(memory + Shape::kQ);
  __syncthreads();
  const int warp_row = warp * kBlocks * 16;
  const Left q(memory + Shape::kQ + warp_row * MmaRowBytes<T>(kWidth));

  // The factor gives scores in units of log 2.
  const float scale = a.scale * kLog2E;
  const int warp_query = first_query + warp_row, warp_last = warp_query + kBlocks * 16 - 1;
  const uint2 rng = kDropout ? a.dropout.Key() : uint2{};
  const int64_t draw_row = a.dropout.Row(b, static_cast<int>(h));
  float largest[kBlocks][2], total[kBlocks][2] = {}, sum[kBlocks][kWidth / 8][4] = {};
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) largest[m][0] = largest[m][1] = -INFINITY;
  // The first key that any of the warp's queries sees, and the first that all of them see.
  const int warp_first = kRanges ? a.ranges.LastFirst(b, warp_query + 1, queries) : 0;
  const int warp_cut = kRanges ? a.ranges.LastFirst(b, warp_last + 1, queries) : 0;

  for (int step = begin; step < steps; ++step) {
    const uint32_t k_tile = memory + (step - begin) % 2 * Shape::kStage;
    WaitForOwnCopies<0>();
    k_copy.Round(k_tile);
    v_copy.Round(k_tile + Shape::kTile);
    __syncthreads();
    if (step + 1 < steps) copy(step + 1);
    const int first_key = step * kKeys;
    if (warp_query >= queries || (a.causal && first_key > warp_last)) continue;
    if (kRanges && first_key + kKeys <= warp_first) continue;
    float p[kBlocks][kKeys / 8][4] = {};
    AddProducts<T, kBlocks, kKeys, kWidth>(p, q, k_tile);
    CapProducts(softcap, p);
    if (first_key + kKeys > keys || (a.causal && first_key + kKeys - 1 > warp_query)) {
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
          const int query = warp_query + RowOfResult<false>(m, i / 2 % 2);
          const int key = first_key + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (key >= keys || (a.causal && key > query)) p[m][i / 4][i % 4] = -INFINITY;
        }
      }
    }
    if (kRanges && first_key < warp_cut) {
      HideEarlierKeys(a.ranges, b, warp_query, queries, first_key, p);
    }
    bool moves = false;
    float correction[kBlocks][2];
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float row_largest = largest[m][r];
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
          row_largest = fmaxf(row_largest, fmaxf(p[m][j][r * 2], p[m][j][r * 2 + 1]));
        }
        row_largest = QuadMax(row_largest);
        // The reference of the exponents changes only when exponents would become large: most steps
        // don't rescale the sums.
        const bool grows = (row_largest - largest[m][r]) * scale > kMostExponent;
        row_largest = grows ? row_largest : largest[m][r];
        moves = moves || grows;
        // While a row has only −∞, this keeps the exponents' arguments from becoming NaN.
        const float base = row_largest == -INFINITY ? 0.0f : row_largest * scale;
        correction[m][r] = grows ? Exp2(fmaf(largest[m][r], scale, -base)) : 1.0f;
        largest[m][r] = row_largest;
        float row_total = 0;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& x = p[m][j][r * 2 + e];
            x = Exp2(fmaf(x, scale, -base));
            row_total += x;
          }
        }
        // The sum of this lane's columns only; the correction is the same for all lanes.
        total[m][r] = fmaf(total[m][r], correction[m][r], row_total);
      }
      if constexpr (kDropout) {
        const uint64_t tile = ScoreTile(a.dropout, draw_row, warp_query + m * 16, first_key);
#pragma unroll
        for (int t = 0; t < kKeys / 16; ++t) {
          const TileDraws<false, 1> draws(a.dropout, rng, tile + static_cast<uint64_t>(t), 1);
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            if (!draws.Kept(i, a.dropout.threshold << 16)) p[m][t * 2 + i / 4][i % 4] = 0;
          }
        }
      }
    }
    if (__any_sync(~0u, moves)) {
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i) sum[m][i / 4][i % 4] *= correction[m][i / 2 % 2];
      }
    }
    AddWeighted<T, kBlocks, kKeys, kWidth>(sum, p, k_tile + Shape::kTile);
  }

#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
    float factor[2];
    int rows[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float row_total = QuadSum(total[m][r]);
      factor[r] = (kDropout ? a.dropout.keep_scale : 1.0f) / row_total;
      rows[r] = warp_query + RowOfResult<false>(m, r);
      if (a.lse != nullptr && lane % 4 == 0 && rows[r] < queries) {
        a.lse[bh * a.queries + rows[r]] = largest[m][r] * a.scale + logf(row_total);
      }
    }
    StoreSums<T, kWidth>(sum[m], factor, a.out + (b * a.queries * heads + h) * head,
                         a.heads * a.head, rows, queries, head, a.largest);
  }
#endif
}

template <typename T, int kWidth, bool kDropout, bool kRanges, typename Softcap>
void Launch(const AttentionForwardArguments<T>& a, const Softcap& softcap, cudaStream_t stream) {
  using Shape = ForwardShape<T, kWidth>;
  const auto kernel = &MmaForwardKernel<T, kWidth, kDropout, kRanges, Softcap>;
  gpu::AllowSharedMemory(kernel, Shape::kBytes);
  const int64_t tiles = (a.queries + Shape::kQueries - 1) / Shape::kQueries;
  kernel<<<static_cast<unsigned>(a.batch * a.heads * tiles), kMmaThreads, Shape::kBytes, stream>>>(
      a, softcap);
  gpu::CheckLaunch("attention");
}

}  // namespace

template <typename T>
int64_t MmaForwardMemory(int64_t head) {
  return DispatchMmaWidth(head,
                          [&]<int kWidth>() { return int64_t{ForwardShape<T, kWidth>::kBytes}; });
}

template <typename T>
void LaunchMmaForward(const AttentionForwardArguments<T>& a, cudaStream_t stream,
                      const ScoreSoftcap& softcap) {
  const bool drops = a.dropout.rng != nullptr;
  DispatchMmaWidth(a.head, [&]<int kWidth>() {
    if (softcap.caps()) {
      return DispatchCapped(drops, softcap, [&]<bool kDropout, bool kRanges>(const auto& cap) {
        Launch<T, kWidth, kDropout, kRanges>(a, cap, stream);
      });
    }
    DispatchDropoutAndRanges(drops, a.ranges.cuts(), [&]<bool kDropout, bool kRanges>() {
      Launch<T, kWidth, kDropout, kRanges>(a, NoSoftcap(), stream);
    });
  });
}

template int64_t MmaForwardMemory<float>(int64_t);
template int64_t MmaForwardMemory<__nv_bfloat16>(int64_t);
template int64_t MmaForwardMemory<__half>(int64_t);
template void LaunchMmaForward(const AttentionForwardArguments<float>&, cudaStream_t,
                               const ScoreSoftcap&);
template void LaunchMmaForward(const AttentionForwardArguments<__nv_bfloat16>&, cudaStream_t,
                               const ScoreSoftcap&);
template void LaunchMmaForward(const AttentionForwardArguments<__half>&, cudaStream_t,
                               const ScoreSoftcap&);

}  // namespace plimsoll::ops
