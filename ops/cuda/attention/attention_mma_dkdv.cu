// dk and dv by mma.sync (attention_mma_backward.cuh). A thread block has 64 or 128 keys of a
// key-value head, a warp 16 or 32 of them, and loops over the queries of its group, or of a part of
// its group (MmaKeyParts). If dk and dv of 16 keys don't fit a warp's registers, one warp computes
// the weights and dv, and passes the weights to another warp, which computes dP and dk. With
// dropout, M is stored in the sign of P, which is never negative.
#include "ops/attention/attention_backward_ways.h"
#include "ops/cuda/attention/attention_mma_backward.cuh"
#include "ops/cuda/attention/attention_mma_tiles.cuh"

namespace plimsoll::ops {

namespace {

// What every GPU since 8.0 grants a thread block. Shapes keep below it where they can.
constexpr int kLeastSharedMemory = 99 << 10;

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

}  // namespace

template <typename T>
int64_t MmaDkdvMemory(int64_t head) {
  return DispatchMmaWidth(head,
                          [&]<int kWidth>() { return int64_t{DkdvShape<T, kWidth>::kBytes}; });
}

template <typename T>
void LaunchMmaDkdv(const AttentionBackwardArguments<T>& a, const KeyParts& parts,
                   const ScoreSoftcap& softcap, cudaStream_t stream) {
  DispatchMmaBackward(a, softcap, [&]<int kWidth, bool kDropout, bool kRanges>(const auto& cap) {
    using Shape = DkdvShape<T, kWidth>;
    using Softcap = std::decay_t<decltype(cap)>;
    static_assert(Shape::kKeys == (kWidth <= 64 ? 128 : 64));  // as MmaKeyParts says
    LaunchMma<Shape>(&MmaDkdvKernel<T, kWidth, kDropout, kRanges, Softcap>, a, cap, parts,
                     int64_t{parts.blocks} * parts.parts, Shape::kThreads,
                     "attention_backward: dk and dv", stream);
  });
}

template int64_t MmaDkdvMemory<float>(int64_t);
template int64_t MmaDkdvMemory<__nv_bfloat16>(int64_t);
template int64_t MmaDkdvMemory<__half>(int64_t);
template void LaunchMmaDkdv(const AttentionBackwardArguments<float>&, const KeyParts&,
                            const ScoreSoftcap&, cudaStream_t);
template void LaunchMmaDkdv(const AttentionBackwardArguments<__nv_bfloat16>&, const KeyParts&,
                            const ScoreSoftcap&, cudaStream_t);
template void LaunchMmaDkdv(const AttentionBackwardArguments<__half>&, const KeyParts&,
                            const ScoreSoftcap&, cudaStream_t);

}  // namespace plimsoll::ops
