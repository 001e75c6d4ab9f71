// δ and dq by mma.sync (attention_mma_backward.cuh). A thread block has 64 or 128 queries of a
// head, a warp 16 or 32 of them, and loops over the keys.
#include "ops/cuda/attention/attention_mma_backward.cuh"
#include "ops/cuda/attention/attention_mma_tiles.cuh"

namespace plimsoll::ops {

namespace {

template <typename T, int kWidth>
struct DqShape {
  static constexpr bool kNarrow = kWidth <= 64;
  static constexpr bool kHeld = kWidth <= 128;     // whether q is held in registers
  static constexpr int kBlocks = kNarrow ? 2 : 1;  // number of blocks of 16 queries for a warp
  static constexpr int kQueries = kMmaWarps * kBlocks * 16;
  static constexpr int kKeys = kHeld ? 32 : 16;  // keys at a time
  static constexpr int kTile = kKeys * MmaRowBytes<T>(kWidth);
  static constexpr int kRows = kQueries * MmaRowBytes<T>(kWidth);
  // The stages of keys and values, then dout. Held queries are copied through the stages after the
  // first.
  static constexpr int kStages = kNarrow ? 3 : 2;
  static constexpr int kStage = 2 * kTile;
  static constexpr int kDout = kStages * kStage;
  static constexpr int kQ = kHeld ? kStage : kDout + kRows;
  static constexpr int kBytes = kDout + (kHeld ? 1 : 2) * kRows;
  static constexpr int kResident = 2;  // thread blocks on a multiprocessor
  static_assert(!kHeld || kQ + kRows <= kDout);
};

// Computes δ of this warp's queries, divided by keep_scale. Two lanes share a query, and the even
// one writes. sums[m] belongs to query m · 16 + lane / 2.
template <int kBlocks, typename T>
__device__ void FindDelta(const AttentionBackwardArguments<T>& a, int64_t b, int h, int first,
                          int length, float (&sums)[kBlocks]) {
  const int lane = threadIdx.x % 32;
  const float keep_share = 1 / a.dropout.keep_scale;
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
    const int query = first + m * 16 + lane / 2;
    const bool there = query < length;
    const int64_t from = a.Out(b, there ? query : 0, h);
    float sum = 0;
#pragma unroll 4
    for (int column = lane % 2 * 8; column < a.head; column += 16) {
      if (!there) break;
      float out[8], dout[8];
      LoadEight(a.out + from + column, out);
      LoadEight(a.dout + from + column, dout);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum = fmaf(out[e], dout[e], sum);
    }
    sum = (sum + __shfl_xor_sync(~0u, sum, 1)) * keep_share;
    sums[m] = sum;
    if (there && lane % 2 == 0) a.delta[(b * a.heads + h) * a.sequence + query] = sum;
  }
}

template <typename T, int kWidth, bool kDropout, bool kRanges, typename Softcap,
          typename Shape = DqShape<T, kWidth>>
__global__ __launch_bounds__(kMmaThreads, Shape::kResident) void MmaDqKernel(
    const __grid_constant__ AttentionBackwardArguments<T> a,
    const __grid_constant__ Softcap softcap, const __grid_constant__ KeyParts parts) {
#if __CUDA_ARCH__ >= 800
  ClearCounters(parts);
  constexpr int kBlocks = Shape::kBlocks, kKeys = Shape::kKeys;
  using Left = std::conditional_t<Shape::kHeld, HeldLeft<T, kBlocks, kWidth>,
                                  SharedLeft<T, kBlocks, kWidth>>;
  const uint32_t memory = SharedAddress(MmaMemory());
  const int lane = threadIdx.x % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int head = static_cast<int>(a.head), heads = static_cast<int>(a.heads);
  const int tiles = static_cast<int>((a.sequence + Shape::kQueries - 1) / Shape::kQueries);
  // Blocks with the last queries come first, because these see the most keys.
  const int first_query = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * Shape::kQueries;
  const int64_t bh = blockIdx.x / tiles, b = bh / heads;
  const int h = static_cast<int>(bh % heads);
  const int length = static_cast<int>(a.Length(b));
  if (first_query >= length) return;
  const int64_t key_head = heads + h / (heads / a.kv_heads);
  const int seen = a.causal ? min(length, first_query + Shape::kQueries) : length;
  const int steps = (seen + kKeys - 1) / kKeys;
  const int begin = kRanges ? a.ranges.First(b, first_query) / kKeys : 0;

  const MmaCopy<T, kKeys, kWidth, kMmaThreads> k_copy(a.qkv + a.Packed(b, 0, key_head), a.Row(),
                                                      length, head);
  const MmaCopy<T, kKeys, kWidth, kMmaThreads> v_copy(a.qkv + a.Packed(b, 0, key_head + a.kv_heads),
                                                      a.Row(), length, head);
  const auto copy = [&](int step, int stage) {
    const uint32_t to = memory + stage * Shape::kStage;
    k_copy.Start(to, step * kKeys);
    v_copy.Start(to + Shape::kTile, step * kKeys);
    CommitCopies();
  };
  using RowCopy = MmaCopy<T, Shape::kQueries, kWidth, kMmaThreads>;
  const RowCopy q_copy(a.qkv + a.Packed(b, 0, h), a.Row(), length, head);
  const RowCopy dout_copy(a.dout + a.Out(b, 0, h), a.heads * a.head, length, head);
  q_copy.Start(memory + Shape::kQ, first_query);
  dout_copy.Start(memory + Shape::kDout, first_query);
  copy(begin, 0);

  const int warp_row = warp * kBlocks * 16, warp_query = first_query + warp_row;
  float from_delta[kBlocks][2], lse[kBlocks][2];  // −δ/c; lse in units of log 2
  {
    float sums[kBlocks];
    FindDelta(a, b, h, warp_query, length, sums);
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int query = warp_query + RowOfResult<false>(m, r);
        from_delta[m][r] = -__shfl_sync(~0u, sums[m], (lane / 4 + r * 8) * 2);
        lse[m][r] = query < length ? a.lse[bh * a.sequence + query] * kLog2E : 0.0f;
      }
    }
  }
  WaitForOwnCopies<0>();
  q_copy.Round(memory + Shape::kQ);
  dout_copy.Round(memory + Shape::kDout);
  __syncthreads();
  const Left q(memory + Shape::kQ + warp_row * MmaRowBytes<T>(kWidth));
  const SharedLeft<T, kBlocks, kWidth> dout(memory + Shape::kDout +
                                            warp_row * MmaRowBytes<T>(kWidth));

  const float scale = a.scale * kLog2E;
  const int warp_last = warp_query + kBlocks * 16 - 1;
  const uint2 rng = kDropout ? a.dropout.Key() : uint2{};
  const int64_t draw_row = a.dropout.Row(b, h);
  float dq[kBlocks][kWidth / 8][4] = {};
  // The first key that any of the warp's queries sees, and the first that all of them see.
  const int warp_first = kRanges ? a.ranges.LastFirst(b, warp_query + 1, length) : 0;
  const int warp_cut = kRanges ? a.ranges.LastFirst(b, warp_last + 1, length) : 0;
  int stage = 0;
  for (int step = begin; step < steps; ++step) {
    const uint32_t k_tile = memory + stage * Shape::kStage;
    WaitForOwnCopies<0>();
    k_copy.Round(k_tile);
    v_copy.Round(k_tile + Shape::kTile);
    __syncthreads();
    const int next = stage + 1 == Shape::kStages ? 0 : stage + 1;
    if (step + 1 < steps) copy(step + 1, next);
    stage = next;
    const int first_key = step * kKeys;
    if (warp_query >= length || (a.causal && first_key > warp_last)) continue;
    if (kRanges && first_key + kKeys <= warp_first) continue;
    float p[kBlocks][kKeys / 8][4] = {}, ds[kBlocks][kKeys / 8][4];
    AddProducts<T, kBlocks, kKeys, kWidth>(p, q, k_tile);
    CapProducts(softcap, p);
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) ds[m][i / 4][i % 4] = from_delta[m][i / 2 % 2];
    }
    AddProducts<T, kBlocks, kKeys, kWidth>(ds, dout, k_tile + Shape::kTile);
    if (kRanges && first_key < warp_cut) {
      HideEarlierKeys(a.ranges, b, warp_query, length, first_key, p);
    }
    const bool masked =
        first_key + kKeys > length || (a.causal && first_key + kKeys - 1 > warp_query);
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        float& x = p[m][i / 4][i % 4];
        x = Exp2(fmaf(x, scale, -lse[m][i / 2 % 2]));
      }
      if (masked) {
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
          const int query = warp_query + RowOfResult<false>(m, i / 2 % 2);
          const int key = first_key + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (key >= length || (a.causal && key > query)) p[m][i / 4][i % 4] = 0;
        }
      }
      if constexpr (kDropout) {
        const uint64_t tile = ScoreTile(a.dropout, draw_row, warp_query + m * 16, first_key);
#pragma unroll
        for (int t = 0; t < kKeys / 16; ++t) {
          const TileDraws<false, 1> draws(a.dropout, rng, tile + static_cast<uint64_t>(t), 1);
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            if (!draws.Kept(i, a.dropout.threshold << 16)) {
              ds[m][t * 2 + i / 4][i % 4] = from_delta[m][i / 2 % 2];
            }
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) ds[m][i / 4][i % 4] *= p[m][i / 4][i % 4];
      if constexpr (Softcap::kCaps) {
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
          ds[m][i / 4][i % 4] *= softcap.Slope(p[m][i / 4][i % 4], lse[m][i / 2 % 2]);
        }
      }
    }
    AddWeighted<T, kBlocks, kKeys, kWidth>(dq, ds, k_tile);
  }
  const float all = a.scale * a.dropout.keep_scale, factor[2] = {all, all};
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
    const int rows[2] = {warp_query + RowOfResult<false>(m, 0),
                         warp_query + RowOfResult<false>(m, 1)};
    StoreSums<T, kWidth>(dq[m], factor, a.dqkv + a.Packed(b, 0, h), a.Row(), rows, length, head,
                         a.largest);
  }
#endif
}

}  // namespace

template <typename T>
int64_t MmaDqMemory(int64_t head) {
  return DispatchMmaWidth(head, [&]<int kWidth>() { return int64_t{DqShape<T, kWidth>::kBytes}; });
}

template <typename T>
void LaunchMmaDq(const AttentionBackwardArguments<T>& a, const KeyParts& parts,
                 const ScoreSoftcap& softcap, cudaStream_t stream) {
  DispatchMmaBackward(a, softcap, [&]<int kWidth, bool kDropout, bool kRanges>(const auto& cap) {
    using Shape = DqShape<T, kWidth>;
    using Softcap = std::decay_t<decltype(cap)>;
    const int64_t tiles = (a.sequence + Shape::kQueries - 1) / Shape::kQueries;
    LaunchMma<Shape>(&MmaDqKernel<T, kWidth, kDropout, kRanges, Softcap>, a, cap, parts,
                     a.batch * a.heads * tiles, kMmaThreads, "attention_backward: dq", stream);
  });
}

template int64_t MmaDqMemory<float>(int64_t);
template int64_t MmaDqMemory<__nv_bfloat16>(int64_t);
template int64_t MmaDqMemory<__half>(int64_t);
template void LaunchMmaDq(const AttentionBackwardArguments<float>&, const KeyParts&,
                          const ScoreSoftcap&, cudaStream_t);
template void LaunchMmaDq(const AttentionBackwardArguments<__nv_bfloat16>&, const KeyParts&,
                          const ScoreSoftcap&, cudaStream_t);
template void LaunchMmaDq(const AttentionBackwardArguments<__half>&, const KeyParts&,
                          const ScoreSoftcap&, cudaStream_t);

}  // namespace plimsoll::ops
