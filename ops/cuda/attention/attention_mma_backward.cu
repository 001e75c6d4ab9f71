// Gradients of blockwise attention by mma.sync: bf16, fp16, and float32 with products in TF32 (the
// formulas are in attention_backward.cuh):
//
//   dq     a thread block has 64 or 128 queries of a head, a warp 16 or 32 of them, and loops over
//          the keys; it also computes δ
//   dkdv   a thread block has 64 or 128 keys of a key-value head, a warp 16 or 32 of them, and
//          loops over the queries of its group, or of a part of its group (MmaKeyParts). If dk and
//          dv of 16 keys don't fit a warp's registers, one warp computes the weights and dv, and
//          passes the weights to another warp, which computes dP and dk
//
// With dropout, M the mask of 0 and 1 and c keep_scale, dv = c·(P∘M)ᵀ·dout and
// dS = c·P∘(M∘dP − δ/c). The factor c is applied at the ends of dq, dk and dv, and the products of
// dP are initialized with −δ/c. dkdv stores M in the sign of P, which is never negative.
//
// Scores and their gradients stay in registers; the next tiles are copied while the current ones
// are multiplied. Every gradient has one writer, or writers that add in turn, so its bits are
// always the same; therefore 7 products are computed instead of 5. (5, with dq added in turn by the
// thread blocks of all keys, took 10 % longer on an H200: the tensor cores are busy for 40 % of the
// time.)
//
// Bytes: k and v (q and dout) once for each thread block, mostly from L2.
#include <algorithm>

#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/attention/attention_backward_ways.h"
#include "ops/cuda/attention/attention_key_parts.cuh"
#include "ops/cuda/attention/attention_mma.cuh"
#include "ops/cuda/attention/attention_mma_tiles.cuh"

namespace plimsoll::ops {

namespace {

// What every GPU since 8.0 grants a thread block. Shapes keep below it where they can.
constexpr int kLeastSharedMemory = 99 << 10;

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

template <typename T, int kWidth>
struct DkdvShape {
  static constexpr bool kNarrow = kWidth <= 64;
  static constexpr bool kApart = kWidth > 128;  // dv and dk are computed by different warps
  static constexpr int kThreads = (kApart ? 2 : 1) * kMmaThreads;
  static constexpr int kBlocks = kNarrow ? 2 : 1;  // number of blocks of 16 keys for a warp
  static constexpr int kKeys = kMmaWarps * kBlocks * 16;
  static constexpr int kQueries = kApart || kIsTf32<T> ? 16 : 32;  // queries at a time
  static constexpr int kTile = kQueries * MmaRowBytes<T>(kWidth);
  static constexpr int kRows = kKeys * MmaRowBytes<T>(kWidth);
  static constexpr bool kPlaced = kBlocks == 2;  // keys are placed by PlaceOfKey
  // The stages of q, dout, lse and δ: two, or one if only one fits everywhere; then k and v; then
  // the weights that warps pass to others.
  static constexpr int kFloats = 2 * kTile;
  static constexpr int kStage = kFloats + 2 * kQueries * 4;
  static constexpr int kWithoutStages = 2 * kRows + (kApart ? kKeys * kQueries * 4 : 0);
  static constexpr int kRoom = kLeastSharedMemory - kWithoutStages;
  static constexpr int kStages = kStage <= kRoom && 2 * kStage > kRoom ? 1 : 2;
  static constexpr int kK = kStages * kStage;
  static constexpr int kWeights = kK + 2 * kRows;
  static constexpr int kBytes = kStages * kStage + kWithoutStages;
  static constexpr int kResident = kApart ? 1 : 2;  // thread blocks on a multiprocessor
};

// Marks dropped weights by the signs of P. Rows are keys, columns are queries; `row`:
// AttentionDropout::Row.
template <int kBlocks, int kQueries>
__device__ void MarkDropped(const AttentionDropout& dropout, uint2 rng, int64_t row,
                            int first_query, int warp_key, float (&p)[kBlocks][kQueries / 8][4]) {
  const int lane = threadIdx.x % 32;
  const uint32_t high = dropout.threshold << 16;
#pragma unroll
  for (int j = 0; j < kQueries / 8; j += 2) {
    if constexpr (kBlocks == 2) {
      // With PlaceOfKey, all scores of a Philox block belong to this lane.
      const uint64_t tile = ScoreTile(dropout, row, first_query + j * 8, warp_key + lane / 16 * 16);
      const uint64_t block = tile * 32 + static_cast<uint64_t>(lane % 4 * 8 + lane / 4 % 4);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const uint4 w = PhiloxBlock<kDropoutRounds>(rng, dropout.stream, block + e * 4);
        const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& low_key = p[0][j + i % 2][i / 2 * 2 + e];
          float& high_key = p[1][j + i % 2][i / 2 * 2 + e];
          if (words[i] << 16 < high) low_key = -low_key;
          if (words[i] < high) high_key = -high_key;
        }
      }
    } else {
      const uint64_t tile = ScoreTile(dropout, row, first_query + j * 8, warp_key);
      const TileDraws<true, 1> draws(dropout, rng, tile, 0);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& weight = p[0][j + i / 4][i % 4];
        if (!draws.Kept(i, high)) weight = -weight;
      }
    }
  }
}

// The barrier between a warp that passes weights and the warp that receives them.
// compute-sanitizer's racecheck doesn't follow named barriers: in a build for it
// (--config=racecheck) all threads use one barrier, including those of pairs that skip the step.
__device__ inline void ArriveAtPair(uint32_t giver) {
#ifdef PLIMSOLL_RACECHECK
  __syncthreads();
#else
  asm volatile("bar.arrive %0, 64;" ::"r"(giver + 1) : "memory");
#endif
}
__device__ inline void AwaitPair(uint32_t giver) {
#ifdef PLIMSOLL_RACECHECK
  __syncthreads();
#else
  asm volatile("bar.sync %0, 64;" ::"r"(giver + 1) : "memory");
#endif
}
__device__ inline void SkipPair() {
#ifdef PLIMSOLL_RACECHECK
  __syncthreads();
#endif
}

// Passes this warp's weights to the warp that computes dk of the same keys, which is four warps
// further. `to`: memory for all warps; it is free again after the next barrier of all threads.
template <int kBlocks, int kQueries>
__device__ void GiveWeights(const float (&p)[kBlocks][kQueries / 8][4], uint32_t to) {
  to += threadIdx.x / 32 * kBlocks * kQueries * 64 + threadIdx.x % 32 * 16;
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j) {
      const float(&x)[4] = p[m][j];
      StorePiece(to + (m * kQueries / 8 + j) * 512, {__float_as_uint(x[0]), __float_as_uint(x[1]),
                                                     __float_as_uint(x[2]), __float_as_uint(x[3])});
    }
  }
  ArriveAtPair(threadIdx.x / 32);
}

template <int kBlocks, int kQueries>
__device__ void TakeWeights(float (&p)[kBlocks][kQueries / 8][4], uint32_t from) {
  const uint32_t giver = threadIdx.x / 32 - kMmaWarps;
  AwaitPair(giver);
  from += giver * kBlocks * kQueries * 64 + threadIdx.x % 32 * 16;
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j) {
      uint32_t x[4];
      LoadPiece(x, from + (m * kQueries / 8 + j) * 512);
#pragma unroll
      for (int i = 0; i < 4; ++i) p[m][j][i] = __uint_as_float(x[i]);
    }
  }
}

// Sets weights to 0 if their key is before the first one that the query sees. Rows are the keys
// from warp_key on, columns the queries from first_query on; queries from `length` on don't matter.
template <bool kPlaced, int kBlocks, int kColumns>
__device__ void HideFromLaterQueries(const AttentionRanges& ranges, int64_t b, int first_query,
                                     int length, int warp_key, float (&p)[kBlocks][kColumns][4]) {
  const int column = first_query + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2 * kColumns; ++i) {
    const int first = ranges.LastFirst(b, column + i / 2 * 8 + i % 2 + 1, length);
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (warp_key + RowOfResult<kPlaced>(m, r) < first) p[m][i / 2][r * 2 + i % 2] = 0;
      }
    }
  }
}

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

template <typename T, int kWidth, bool kDropout, bool kRanges, typename Softcap,
          typename Shape = DkdvShape<T, kWidth>>
__global__ __launch_bounds__(Shape::kThreads, Shape::kResident) void MmaDkdvKernel(
    const __grid_constant__ AttentionBackwardArguments<T> a,
    const __grid_constant__ Softcap softcap, const __grid_constant__ KeyParts parts) {
#if __CUDA_ARCH__ >= 800
  constexpr int kBlocks = Shape::kBlocks, kQueries = Shape::kQueries;
  constexpr int kThreads = Shape::kThreads;
  char* const shared = MmaMemory();
  const uint32_t memory = SharedAddress(shared);
  const int lane = threadIdx.x % 32, warp = static_cast<int>(threadIdx.x) / 32 % kMmaWarps;
  const bool finds_dv = !Shape::kApart || threadIdx.x < kMmaThreads;
  const bool finds_dk = !Shape::kApart || threadIdx.x >= kMmaThreads;
  const int head = static_cast<int>(a.head), heads = static_cast<int>(a.heads);
  const int kv_heads = static_cast<int>(a.kv_heads), group = heads / kv_heads;
  const int tiles = static_cast<int>((a.sequence + Shape::kKeys - 1) / Shape::kKeys);
  // Blocks with the first keys come first, because these have the most queries.
  const int first_key = parts.Block() % tiles * Shape::kKeys;
  const int64_t b = parts.Block() / tiles / kv_heads;
  const int g = parts.Block() / tiles % kv_heads;
  const int first_head = parts.Part() * group / parts.parts;
  const int end_head = (parts.Part() + 1) * group / parts.parts;
  const int length = static_cast<int>(a.Length(b));
  if (first_key >= length) return;
  // The steps of one query head.
  const int first_step = a.causal ? first_key / kQueries : 0;
  const int all_steps = (length + kQueries - 1) / kQueries;
  const int end_step =
      kRanges ? a.ranges.EndTile(b, kQueries, first_key + Shape::kKeys, first_step, all_steps)
              : all_steps;

  using Copy = MmaCopy<T, kQueries, kWidth, kThreads>;
  const Copy q_copy(a.qkv + a.Packed(b, 0, g * group), a.Row(), length, head);
  const Copy dout_copy(a.dout + a.Out(b, 0, g * group), a.heads * a.head, length, head);
  const auto copy = [&](int in_group, int step, int stage) {
    const uint32_t to = memory + stage * Shape::kStage;
    q_copy.Start(to, step * kQueries, in_group * head);
    dout_copy.Start(to + Shape::kTile, step * kQueries, in_group * head);
    const int i = static_cast<int>(threadIdx.x);
    if (i < 2 * kQueries) {
      const int query = step * kQueries + i % kQueries;
      const int64_t row = (b * heads + g * group + in_group) * a.sequence;
      const float* const from = (i < kQueries ? a.lse : a.delta) + row;
      const bool there = query < length;
      CopyWord(to + Shape::kFloats + i * 4, from + (there ? query : 0), there);
    }
    CommitCopies();
  };
  using RowCopy = MmaCopy<T, Shape::kKeys, kWidth, kThreads, Shape::kPlaced>;
  const RowCopy k_copy(a.qkv + a.Packed(b, 0, heads + g), a.Row(), length, head);
  const RowCopy v_copy(a.qkv + a.Packed(b, 0, heads + kv_heads + g), a.Row(), length, head);
  k_copy.Start(memory + Shape::kK, first_key);
  v_copy.Start(memory + Shape::kK + Shape::kRows, first_key);
  copy(first_head, first_step, 0);
  WaitForOwnCopies<0>();
  k_copy.Round(memory + Shape::kK);
  v_copy.Round(memory + Shape::kK + Shape::kRows);

  const int warp_row = warp * kBlocks * 16, warp_key = first_key + warp_row;
  const SharedLeft<T, kBlocks, kWidth> k(memory + Shape::kK + warp_row * MmaRowBytes<T>(kWidth));
  const SharedLeft<T, kBlocks, kWidth> v(memory + Shape::kK + Shape::kRows +
                                         warp_row * MmaRowBytes<T>(kWidth));
  const float scale = a.scale * kLog2E;
  const uint2 rng = kDropout ? a.dropout.Key() : uint2{};
  float sums[Shape::kApart ? 1 : 2][kBlocks][kWidth / 8][4] = {};
  auto& dv = sums[0];
  auto& dk = sums[Shape::kApart ? 0 : 1];
  int in_group = first_head, step = first_step, stage = 0;
  for (int next_in_group, next_step; in_group < end_head;
       in_group = next_in_group, step = next_step, stage = (stage + 1) % Shape::kStages) {
    const uint32_t q_tile = memory + stage * Shape::kStage, dout_tile = q_tile + Shape::kTile;
    if (Shape::kStages == 1 && (in_group > first_head || step > first_step)) {
      __syncthreads();
      copy(in_group, step, 0);
    }
    WaitForOwnCopies<0>();
    q_copy.Round(q_tile);
    dout_copy.Round(dout_tile);
    __syncthreads();
    const bool ends = step + 1 == end_step;
    next_step = ends ? first_step : step + 1;
    next_in_group = in_group + (ends ? 1 : 0);
    if (Shape::kStages > 1 && next_in_group < end_head) copy(next_in_group, next_step, stage ^ 1);
    const int first_query = step * kQueries;
    bool skips = warp_key >= length || (a.causal && first_query + kQueries - 1 < warp_key);
    if constexpr (kRanges) {
      skips = skips || a.ranges.First(b, first_query) >= warp_key + kBlocks * 16;
    }
    if (skips) {
      if constexpr (Shape::kApart) SkipPair();
      continue;
    }
    // Rows are keys, columns are queries. A query after the end has zeros for q, dout, lse and δ,
    // and so adds nothing.
    const auto* const lse =
        reinterpret_cast<const float2*>(shared + stage * Shape::kStage + Shape::kFloats);
    const float2* const delta = lse + kQueries / 2;
    float p[kBlocks][kQueries / 8][4] = {};
    if (finds_dv) {
      AddProducts<T, kBlocks, kQueries, kWidth>(p, k, q_tile);
      CapProducts(softcap, p);
#pragma unroll
      for (int j = 0; j < kQueries / 8; ++j) {
        const float2 two = lse[j * 4 + lane % 4];
        const float column_lse[2] = {two.x * kLog2E, two.y * kLog2E};
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            p[m][j][i] = Exp2(fmaf(p[m][j][i], scale, -column_lse[i % 2]));
          }
        }
      }
      if (a.causal && first_query < warp_key + kBlocks * 16 - 1) {
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
          for (int i = 0; i < kQueries / 2; ++i) {
            const int key = warp_key + RowOfResult<Shape::kPlaced>(m, i / 2 % 2);
            const int query = first_query + i / 4 * 8 + lane % 4 * 2 + i % 2;
            if (key > query) p[m][i / 4][i % 4] = 0;
          }
        }
      }
      if (kRanges && a.ranges.LastFirst(b, first_query + kQueries, length) > warp_key) {
        HideFromLaterQueries<Shape::kPlaced>(a.ranges, b, first_query, length, warp_key, p);
      }
      if constexpr (kDropout) {
        const int64_t row = a.dropout.Row(b, g * group + in_group);
        MarkDropped<kBlocks, kQueries>(a.dropout, rng, row, first_query, warp_key, p);
      }
      if constexpr (Shape::kApart) GiveWeights<kBlocks, kQueries>(p, memory + Shape::kWeights);
      AddWeighted<T, kBlocks, kQueries, kWidth, kDropout>(dv, p, dout_tile);
    }
    if (finds_dk) {
      float ds[kBlocks][kQueries / 8][4];
#pragma unroll
      for (int j = 0; j < kQueries / 8; ++j) {
        const float2 two = delta[j * 4 + lane % 4];
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) ds[m][j][i] = i % 2 == 0 ? -two.x : -two.y;
        }
      }
      AddProducts<T, kBlocks, kQueries, kWidth>(ds, v, dout_tile);
      if constexpr (Shape::kApart) TakeWeights<kBlocks, kQueries>(p, memory + Shape::kWeights);
#pragma unroll
      for (int j = 0; j < kQueries / 8; ++j) {
        const float2 two = kDropout ? delta[j * 4 + lane % 4] : float2{};
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float weight = p[m][j][i];
            if (kDropout && weight < 0) ds[m][j][i] = i % 2 == 0 ? two.x : two.y;
            ds[m][j][i] *= weight;
            if constexpr (Softcap::kCaps) {
              const float2 of = lse[j * 4 + lane % 4];
              ds[m][j][i] *= softcap.Slope(fabsf(weight), (i % 2 == 0 ? of.x : of.y) * kLog2E);
            }
          }
        }
      }
      AddWeighted<T, kBlocks, kQueries, kWidth>(dk, ds, q_tile);
    }
  }
  if (parts.parts > 1) {
    auto& values = reinterpret_cast<float(&)[sizeof(sums) / 16][4]>(sums);
    if (!AddParts<kThreads>(parts, values)) return;
  }
  const float all = a.scale * a.dropout.keep_scale, dk_factor[2] = {all, all};
  const float dv_factor[2] = {a.dropout.keep_scale, a.dropout.keep_scale};
  T* const to = a.dqkv + a.Packed(b, 0, heads + g);
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
    const int rows[2] = {warp_key + RowOfResult<Shape::kPlaced>(m, 0),
                         warp_key + RowOfResult<Shape::kPlaced>(m, 1)};
    if (finds_dk) {
      StoreSums<T, kWidth>(dk[m], dk_factor, to, a.Row(), rows, length, head, a.largest);
    }
    if (finds_dv) {
      StoreSums<T, kWidth>(dv[m], dv_factor, to + int64_t{kv_heads} * head, a.Row(), rows, length,
                           head, a.largest);
    }
  }
#endif
}

template <typename Shape, typename T, typename Kernel, typename Softcap>
void Launch(Kernel kernel, const AttentionBackwardArguments<T>& a, const Softcap& softcap,
            const KeyParts& parts, int64_t blocks, int threads, const char* name,
            cudaStream_t stream) {
  gpu::AllowSharedMemory(kernel, Shape::kBytes);
  kernel<<<static_cast<unsigned>(blocks), threads, Shape::kBytes, stream>>>(a, softcap, parts);
  gpu::CheckLaunch(name);
}

// The parts' scratch memory, which begins after δ.
template <typename T>
KeyParts PartsOf(const AttentionBackwardArguments<T>& a) {
  const MmaKeyParts parts(a.batch, a.sequence, a.heads, a.kv_heads, a.head);
  char* const memory =
      reinterpret_cast<char*>(a.delta) + AttentionLseBytes(a.batch * a.heads * a.sequence);
  return {.parts = static_cast<int>(parts.parts),
          .blocks = static_cast<int>(parts.blocks),
          .sums = reinterpret_cast<float4*>(memory),
          .counters = reinterpret_cast<int*>(memory + parts.sum_bytes)};
}

}  // namespace

template <typename T>
int64_t MmaBackwardMemory(int64_t head) {
  return DispatchMmaWidth(head, [&]<int kWidth>() {
    return int64_t{std::max(DqShape<T, kWidth>::kBytes, DkdvShape<T, kWidth>::kBytes)};
  });
}

template <typename T>
void LaunchMmaBackward(const AttentionBackwardArguments<T>& a, cudaStream_t stream,
                       const ScoreSoftcap& softcap) {
  const auto launch = [&]<int kWidth, bool kDropout, bool kRanges>(const auto& cap) {
    using Softcap = std::decay_t<decltype(cap)>;
    using Dq = DqShape<T, kWidth>;
    using Dkdv = DkdvShape<T, kWidth>;
    static_assert(Dkdv::kKeys == (kWidth <= 64 ? 128 : 64));  // as MmaKeyParts says
    const KeyParts parts = PartsOf(a);
    const int64_t tiles = (a.sequence + Dq::kQueries - 1) / Dq::kQueries;
    Launch<Dq>(&MmaDqKernel<T, kWidth, kDropout, kRanges, Softcap>, a, cap, parts,
               a.batch * a.heads * tiles, kMmaThreads, "attention_backward: dq", stream);
    Launch<Dkdv>(&MmaDkdvKernel<T, kWidth, kDropout, kRanges, Softcap>, a, cap, parts,
                 int64_t{parts.blocks} * parts.parts, Dkdv::kThreads,
                 "attention_backward: dk and dv", stream);
  };
  const bool drops = a.dropout.rng != nullptr;
  DispatchMmaWidth(a.head, [&]<int kWidth>() {
    if (softcap.caps()) {
      return DispatchCapped(drops, softcap, [&]<bool kDropout, bool kRanges>(const auto& cap) {
        launch.template operator()<kWidth, kDropout, kRanges>(cap);
      });
    }
    DispatchDropoutAndRanges(drops, a.ranges.cuts(), [&]<bool kDropout, bool kRanges>() {
      launch.template operator()<kWidth, kDropout, kRanges>(NoSoftcap());
    });
  });
}

template int64_t MmaBackwardMemory<float>(int64_t);
template int64_t MmaBackwardMemory<__nv_bfloat16>(int64_t);
template int64_t MmaBackwardMemory<__half>(int64_t);
template void LaunchMmaBackward(const AttentionBackwardArguments<float>&, cudaStream_t,
                                const ScoreSoftcap&);
template void LaunchMmaBackward(const AttentionBackwardArguments<__nv_bfloat16>&, cudaStream_t,
                                const ScoreSoftcap&);
template void LaunchMmaBackward(const AttentionBackwardArguments<__half>&, cudaStream_t,
                                const ScoreSoftcap&);

}  // namespace plimsoll::ops
