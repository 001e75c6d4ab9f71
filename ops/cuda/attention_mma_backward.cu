// Gradients of blockwise attention by mma.sync: bf16, fp16, and float32 with products in TF32 (the
// formulas are in attention_backward.cuh):
//
//   dq     a thread block has 64 or 128 queries of a head, a warp 16 or 32 of them, and walks over
//          the keys; it also finds δ
//   dkdv   a thread block has 64 or 128 keys of a key-value head, a warp 16 or 32 of them, and
//   walks
//          over the queries of its group; where dk and dv of a row don't fit a warp's registers,
//          two warps have half of the columns each, and both compute the scores
//
// Scores and their gradients stay in registers; the next tiles are copied while the current ones
// are multiplied. Every gradient has one writer, at the price of 7 products instead of 5. Bytes: k
// and v (q and dout) once for each thread block, mostly from L2.
#include <algorithm>

#include "gpu/check.h"
#include "ops/cuda/attention_mma.cuh"
#include "ops/cuda/attention_mma_tiles.cuh"

namespace plimsoll::ops {

namespace {

template <typename T, int kWidth>
struct DqShape {
  static constexpr bool kNarrow = kWidth <= 64;
  static constexpr bool kHeld = kWidth <= 128;     // q is in registers
  static constexpr int kBlocks = kNarrow ? 2 : 1;  // of 16 queries for a warp
  static constexpr int kQueries = kMmaWarps * kBlocks * 16;
  static constexpr int kKeys = !kHeld && kIsTf32<T> ? 16 : 32;  // at a time
  static constexpr int kTile = kKeys * MmaRowBytes<T>(kWidth);
  static constexpr int kRows = kQueries * MmaRowBytes<T>(kWidth);
  // Stages of keys and values, and dout. Held queries arrive in the stages but the first.
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
  static constexpr int kParts = kWidth <= 128 ? 1 : 2;  // of the columns
  static constexpr int kThreads = kParts * kMmaThreads;
  static constexpr int kColumns = kWidth / kParts;
  static constexpr int kBlocks = kNarrow ? 2 : 1;  // of 16 keys for a warp
  static constexpr int kKeys = kMmaWarps * kBlocks * 16;
  static constexpr int kQueries = !kNarrow && kIsTf32<T> ? 16 : 32;  // at a time
  static constexpr int kTile = kQueries * MmaRowBytes<T>(kWidth);
  static constexpr int kRows = kKeys * MmaRowBytes<T>(kWidth);
  // Two stages of q, dout, lse and δ; k and v.
  static constexpr int kFloats = 2 * kTile;
  static constexpr int kStage = kFloats + 2 * kQueries * 4;
  static constexpr int kK = 2 * kStage;
  static constexpr int kBytes = kK + 2 * kRows;
  static constexpr int kResident = kParts == 1 ? 2 : 1;  // thread blocks on a multiprocessor
  static_assert(kColumns % 16 == 0);
};

// δ of this warp's queries: two lanes for a query, the even one writes. sums[m] is of query
// m · 16 + lane / 2.
template <int kBlocks, typename T>
__device__ void FindDelta(const AttentionBackwardArguments<T>& a, int64_t b, int h, int first,
                          int length, float (&sums)[kBlocks]) {
  const int lane = threadIdx.x % 32;
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
    sum += __shfl_xor_sync(~0u, sum, 1);
    sums[m] = sum;
    if (there && lane % 2 == 0) a.delta[(b * a.heads + h) * a.sequence + query] = sum;
  }
}

template <typename T, int kWidth, bool kDropout, typename Shape = DqShape<T, kWidth>>
__global__ __launch_bounds__(kMmaThreads, Shape::kResident) void MmaDqKernel(
    const __grid_constant__ AttentionBackwardArguments<T> a) {
#if __CUDA_ARCH__ >= 800
  constexpr int kBlocks = Shape::kBlocks, kKeys = Shape::kKeys;
  using Left = std::conditional_t<Shape::kHeld, HeldLeft<T, kBlocks, kWidth>,
                                  SharedLeft<T, kBlocks, kWidth>>;
  const uint32_t memory = SharedAddress(MmaMemory());
  const int lane = threadIdx.x % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int head = static_cast<int>(a.head), heads = static_cast<int>(a.heads);
  const int tiles = static_cast<int>((a.sequence + Shape::kQueries - 1) / Shape::kQueries);
  // The last queries see the most keys, so they come first.
  const int first_query = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * Shape::kQueries;
  const int64_t bh = blockIdx.x / tiles, b = bh / heads;
  const int h = static_cast<int>(bh % heads);
  const int length = static_cast<int>(a.Length(b));
  if (first_query >= length) return;
  const int64_t key_head = heads + h / (heads / a.kv_heads);
  const int seen = a.causal ? min(length, first_query + Shape::kQueries) : length;
  const int steps = (seen + kKeys - 1) / kKeys;

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
  copy(0, 0);

  const int warp_row = warp * kBlocks * 16, warp_query = first_query + warp_row;
  float delta[kBlocks][2], lse[kBlocks][2];  // lse in units of log 2
  {
    float sums[kBlocks];
    FindDelta(a, b, h, warp_query, length, sums);
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int query = warp_query + m * 16 + lane / 4 + r * 8;
        delta[m][r] = __shfl_sync(~0u, sums[m], (lane / 4 + r * 8) * 2);
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
  const uint2 rng = kDropout ? PhiloxKey(a.dropout.rng) : uint2{};
  float dq[kBlocks][kWidth / 8][4] = {};
  int stage = 0;
  for (int step = 0; step < steps; ++step) {
    WaitForOwnCopies<0>();
    __syncthreads();
    const int next = stage + 1 == Shape::kStages ? 0 : stage + 1;
    if (step + 1 < steps) copy(step + 1, next);
    const uint32_t k_tile = memory + stage * Shape::kStage;
    stage = next;
    const int first_key = step * kKeys;
    if (warp_query >= length || (a.causal && first_key > warp_last)) continue;
    float p[kBlocks][kKeys / 8][4], ds[kBlocks][kKeys / 8][4];
    MultiplyRows<T, kBlocks, kKeys, kWidth>(p, q, k_tile);
    MultiplyRows<T, kBlocks, kKeys, kWidth>(ds, dout, k_tile + Shape::kTile);
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
          const int query = warp_query + m * 16 + lane / 4 + i / 2 % 2 * 8;
          const int key = first_key + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (key >= length || (a.causal && key > query)) p[m][i / 4][i % 4] = 0;
        }
      }
      if constexpr (kDropout) {
        const uint64_t tile = ScoreTile(a.dropout, bh, warp_query + m * 16, first_key);
#pragma unroll
        for (int t = 0; t < kKeys / 16; ++t) {
          const TileDraws<false, 1> draws(a.dropout, rng, tile + static_cast<uint64_t>(t), 1);
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const bool kept = draws.Kept(i, a.dropout.threshold << 16);
            ds[m][t * 2 + i / 4][i % 4] *= kept ? a.dropout.keep_scale : 0.0f;
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        float& x = ds[m][i / 4][i % 4];
        x = p[m][i / 4][i % 4] * (x - delta[m][i / 2 % 2]);
      }
    }
    AddWeighted<T, kBlocks, kKeys, kWidth, kWidth>(dq, ds, k_tile);
  }
  const float factor[2] = {a.scale, a.scale};
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
    const int query = warp_query + m * 16;
    StoreSums<T, kWidth>(dq[m], factor, a.dqkv + a.Packed(b, query, h), a.Row(), length - query,
                         head);
  }
#endif
}

template <typename T, int kWidth, bool kDropout, typename Shape = DkdvShape<T, kWidth>>
__global__ __launch_bounds__(Shape::kThreads, Shape::kResident) void MmaDkdvKernel(
    const __grid_constant__ AttentionBackwardArguments<T> a) {
#if __CUDA_ARCH__ >= 800
  constexpr int kBlocks = Shape::kBlocks, kQueries = Shape::kQueries;
  constexpr int kThreads = Shape::kThreads, kColumns = Shape::kColumns;
  char* const shared = MmaMemory();
  const uint32_t memory = SharedAddress(shared);
  const int lane = threadIdx.x % 32, warp = static_cast<int>(threadIdx.x) / 32 % kMmaWarps;
  const int part = static_cast<int>(threadIdx.x) / kMmaThreads;
  const int head = static_cast<int>(a.head), heads = static_cast<int>(a.heads);
  const int kv_heads = static_cast<int>(a.kv_heads), group = heads / kv_heads;
  const int tiles = static_cast<int>((a.sequence + Shape::kKeys - 1) / Shape::kKeys);
  // The first keys have the most queries.
  const int first_key = static_cast<int>(blockIdx.x % tiles) * Shape::kKeys;
  const int64_t b = blockIdx.x / tiles / kv_heads;
  const int g = static_cast<int>(blockIdx.x / tiles % kv_heads);
  const int length = static_cast<int>(a.Length(b));
  if (first_key >= length) return;
  // The steps of a query head.
  const int first_step = a.causal ? first_key / kQueries : 0;
  const int end_step = (length + kQueries - 1) / kQueries;

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
  using RowCopy = MmaCopy<T, Shape::kKeys, kWidth, kThreads>;
  const RowCopy k_copy(a.qkv + a.Packed(b, 0, heads + g), a.Row(), length, head);
  const RowCopy v_copy(a.qkv + a.Packed(b, 0, heads + kv_heads + g), a.Row(), length, head);
  k_copy.Start(memory + Shape::kK, first_key);
  v_copy.Start(memory + Shape::kK + Shape::kRows, first_key);
  copy(0, first_step, 0);
  WaitForOwnCopies<0>();
  k_copy.Round(memory + Shape::kK);
  v_copy.Round(memory + Shape::kK + Shape::kRows);

  const int warp_row = warp * kBlocks * 16, warp_key = first_key + warp_row;
  const SharedLeft<T, kBlocks, kWidth> k(memory + Shape::kK + warp_row * MmaRowBytes<T>(kWidth));
  const SharedLeft<T, kBlocks, kWidth> v(memory + Shape::kK + Shape::kRows +
                                         warp_row * MmaRowBytes<T>(kWidth));
  const uint32_t columns = static_cast<uint32_t>(part * kColumns) * sizeof(T);
  const float scale = a.scale * kLog2E;
  const uint2 rng = kDropout ? PhiloxKey(a.dropout.rng) : uint2{};
  float dk[kBlocks][kColumns / 8][4] = {}, dv[kBlocks][kColumns / 8][4] = {};
  int stage = 0;
  for (int in_group = 0; in_group < group; ++in_group) {
    for (int step = first_step; step < end_step; ++step, stage ^= 1) {
      WaitForOwnCopies<0>();
      __syncthreads();
      if (step + 1 < end_step) {
        copy(in_group, step + 1, stage ^ 1);
      } else if (in_group + 1 < group) {
        copy(in_group + 1, first_step, stage ^ 1);
      }
      const int first_query = step * kQueries;
      if (warp_key >= length || (a.causal && first_query + kQueries - 1 < warp_key)) continue;
      const uint32_t q_tile = memory + stage * Shape::kStage;
      // Rows are keys, columns are queries. A query behind the end has zeros for q, dout, lse and
      // δ, and so adds nothing.
      float p[kBlocks][kQueries / 8][4], ds[kBlocks][kQueries / 8][4];
      MultiplyRows<T, kBlocks, kQueries, kWidth>(p, k, q_tile);
      const auto* const lse =
          reinterpret_cast<const float2*>(shared + stage * Shape::kStage + Shape::kFloats);
      const float2* const delta = lse + kQueries / 2;
#pragma unroll
      for (int j = 0; j < kQueries / 8; ++j) {
        const float2 two = lse[j * 4 + lane % 4];
        const float column_lse[2] = {two.x * kLog2E, two.y * kLog2E};
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            p[m][j][i] = Exp2(fmaf(p[m][j][i], scale, -column_lse[i % 2]));
        }
      }
      if (a.causal && first_query < warp_key + kBlocks * 16 - 1) {
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
          for (int i = 0; i < kQueries / 2; ++i) {
            const int key = warp_key + m * 16 + lane / 4 + i / 2 % 2 * 8;
            const int query = first_query + i / 4 * 8 + lane % 4 * 2 + i % 2;
            if (key > query) p[m][i / 4][i % 4] = 0;
          }
        }
      }
      MultiplyRows<T, kBlocks, kQueries, kWidth>(ds, v, q_tile + Shape::kTile);
#pragma unroll
      for (int j = 0; j < kQueries / 8; ++j) {
        const float2 two = delta[j * 4 + lane % 4];
        const float column_delta[2] = {two.x, two.y};
        if constexpr (!kDropout) {
#pragma unroll
          for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              ds[m][j][i] = p[m][j][i] * (ds[m][j][i] - column_delta[i % 2]);
            }
          }
        } else if (j % 2 == 0) {
          const float2 next = delta[j * 4 + 4 + lane % 4];
          const float column_next[2] = {next.x, next.y};
#pragma unroll
          for (int m = 0; m < kBlocks; ++m) {
            const int64_t bh = b * heads + g * group + in_group;
            const uint64_t tile = ScoreTile(a.dropout, bh, first_query + j * 8, warp_key + m * 16);
            const TileDraws<true, 1> draws(a.dropout, rng, tile, 0);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
              const bool kept = draws.Kept(i, a.dropout.threshold << 16);
              const float d = i < 4 ? column_delta[i % 2] : column_next[i % 2];
              float& weight = p[m][j + i / 4][i % 4];
              float& gradient = ds[m][j + i / 4][i % 4];
              gradient = weight * (gradient * (kept ? a.dropout.keep_scale : 0.0f) - d);
              if (!kept) weight = 0;
            }
          }
        }
      }
      AddWeighted<T, kBlocks, kQueries, kColumns, kWidth>(dv, p, q_tile + Shape::kTile + columns);
      AddWeighted<T, kBlocks, kQueries, kColumns, kWidth>(dk, ds, q_tile + columns);
    }
  }
  const float keep_scale = kDropout ? a.dropout.keep_scale : 1.0f;
  const float dk_factor[2] = {a.scale, a.scale}, dv_factor[2] = {keep_scale, keep_scale};
  const int from = part * kColumns;
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
    const int key = warp_key + m * 16;
    T* const to = a.dqkv + a.Packed(b, key, heads + g) + from;
    StoreSums<T, kColumns>(dk[m], dk_factor, to, a.Row(), length - key, head - from);
    StoreSums<T, kColumns>(dv[m], dv_factor, to + int64_t{kv_heads} * head, a.Row(), length - key,
                           head - from);
  }
#endif
}

template <typename Shape, typename T, typename Kernel>
void Launch(Kernel kernel, const AttentionBackwardArguments<T>& a, int64_t heads, int64_t rows,
            int threads, const char* name, cudaStream_t stream) {
  gpu::Check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kBytes),
      "cudaFuncSetAttribute");
  const int64_t tiles = (a.sequence + rows - 1) / rows;
  kernel<<<static_cast<unsigned>(a.batch * heads * tiles), threads, Shape::kBytes, stream>>>(a);
  gpu::CheckLaunch(name);
}

}  // namespace

template <typename T>
int64_t MmaBackwardMemory(int64_t head) {
  return DispatchMmaWidth(head, [&]<int kWidth>() {
    return int64_t{std::max(DqShape<T, kWidth>::kBytes, DkdvShape<T, kWidth>::kBytes)};
  });
}

template <typename T>
void LaunchMmaBackward(const AttentionBackwardArguments<T>& a, cudaStream_t stream) {
  const auto launch = [&]<int kWidth, bool kDropout>() {
    using Dq = DqShape<T, kWidth>;
    using Dkdv = DkdvShape<T, kWidth>;
    Launch<Dq>(&MmaDqKernel<T, kWidth, kDropout>, a, a.heads, Dq::kQueries, kMmaThreads,
               "attention_backward: dq", stream);
    Launch<Dkdv>(&MmaDkdvKernel<T, kWidth, kDropout>, a, a.kv_heads, Dkdv::kKeys, Dkdv::kThreads,
                 "attention_backward: dk and dv", stream);
  };
  DispatchMmaWidth(a.head, [&]<int kWidth>() {
    a.dropout.rng != nullptr ? launch.template operator()<kWidth, true>()
                             : launch.template operator()<kWidth, false>();
  });
}

template int64_t MmaBackwardMemory<float>(int64_t);
template int64_t MmaBackwardMemory<__nv_bfloat16>(int64_t);
template int64_t MmaBackwardMemory<__half>(int64_t);
template void LaunchMmaBackward(const AttentionBackwardArguments<float>&, cudaStream_t);
template void LaunchMmaBackward(const AttentionBackwardArguments<__nv_bfloat16>&, cudaStream_t);
template void LaunchMmaBackward(const AttentionBackwardArguments<__half>&, cudaStream_t);

}  // namespace plimsoll::ops
