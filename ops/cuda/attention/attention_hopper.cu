// Gradients of blockwise attention on Hopper's tensor cores, bf16 and fp16, heads up to 128 wide
// and multiples of 8 (the formulas are in attention_backward.cuh):
//
//   dq     a warpgroup has 64 queries of a head and loops over the keys; it also computes δ
//   dkdv   a warpgroup has 64 keys of a key-value head and loops over the queries of its group
//
// Scores and their gradients stay in registers: the result of one product is the left operand of
// the next. The next tiles are copied while the current ones are multiplied, and two or three
// warpgroups on a multiprocessor hide each other's waits. Every gradient has one writer; therefore
// 7 products are computed instead of 5. Bytes: k and v (q and dout) once for every 64 queries
// (keys), from L2.
#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/cuda/attention/attention_dropped_weights.cuh"
#include "ops/cuda/attention/attention_hopper.cuh"
#include "ops/cuda/attention/attention_largest_tiles.cuh"
#include "ops/cuda/attention/attention_range_tiles.cuh"
#include "ops/cuda/exp2.cuh"
#include "ops/cuda/wgmma.cuh"

namespace plimsoll::ops {

namespace {

// Copies 64 rows at a time of a matrix in global memory to kPieces adjacent tiles. Rows from `end`
// on and columns from `width` on become zeros.
template <int kPieces, typename T>
class TileCopy {
 public:
  __device__ TileCopy(const T* data, int64_t stride, int end, int width)
      : stride_(stride), row_(static_cast<int>(threadIdx.x) / 8), end_(end) {
    const int piece = threadIdx.x % 8;
    to_ = PieceOffset(row_, piece);
    columns_ = width - piece * 8;
    from_ = data + row_ * stride + piece * 8;
  }

  // Starts copying the rows first, first + 1, ….
  __device__ void Start(uint32_t to, int first) const {
    const T* const from = from_ + first * stride_;
    const int rows = end_ - first - row_;
#pragma unroll
    for (int pass = 0; pass < 4; ++pass) {
#pragma unroll
      for (int tile = 0; tile < kPieces; ++tile) {
        const bool there = pass * 16 < rows && tile * 64 < columns_;
        CopyPiece(to + to_ + tile * kOperandTile + pass * 16 * 128,
                  there ? from + pass * 16 * stride_ + tile * 64 : from_, there);
      }
    }
  }

 private:
  const T* from_;
  int64_t stride_;
  uint32_t to_;
  int row_, end_, columns_;
};

// Scales and writes a result of 64 rows, and raises its largest magnitude.
template <int kPieces, typename T>
__device__ void StoreTile(const float (&from)[kPieces][32], float scale, T* to, int64_t stride,
                          int64_t count, int64_t width, uint32_t* largest) {
  AddLargestOfTiles<T>(from, scale, static_cast<int>(count), static_cast<int>(width), largest);
  const ResultPlace at;
#pragma unroll
  for (int tile = 0; tile < kPieces; ++tile) {
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
      const int row = at.Row(i), column = tile * 64 + at.Column(i);
      if (row < count && column < width) {
        *reinterpret_cast<uint32_t*>(to + row * stride + column) =
            PackTwo<T>(from[tile][i] * scale, from[tile][i + 1] * scale);
      }
    }
  }
}

// The tiles of one warpgroup in shared memory: two that stay, and two per stage that change.
template <int kPieces>
struct HopperTiles {
  static constexpr int kStages = kPieces == 1 ? 3 : 2;
  static constexpr int kOperand = kPieces * kOperandTile;
  static constexpr int kFloats = (2 + 2 * kStages) * kOperand;
  static constexpr int kBytes = kFloats + kStages * 128 * 4;

  __device__ static char* Memory() {
    extern __shared__ __align__(1024) char memory[];
    return memory;
  }
  __device__ HopperTiles() : base(SharedAddress(Memory())) {
    if (base % 1024 != 0) __trap();
  }
  __device__ uint32_t Fixed(int i) const { return base + i * kOperand; }
  __device__ uint32_t Moving(int stage, int i) const {
    return base + (2 + 2 * stage + i) * kOperand;
  }
  // The floats of a stage; there are 128 for each.
  __device__ float* Floats(int stage) const {
    return reinterpret_cast<float*>(Memory() + kFloats) + stage * 128;
  }

  uint32_t base;
};

// The steps of a warpgroup: the tiles of a step are copied while the previous step is computed.
// Products that accumulate into results may still run when the next step begins; waiting for the
// first products of that step includes them.
//
//   with three stages  a step's copies overwrite the step before last: free at its start
//   with two           they overwrite the previous step: free after the first wait

template <typename T, int kPieces, bool kDropout, bool kRanges>
__global__ __launch_bounds__(kWarpgroup, kPieces == 1 ? 3 : 2) void HopperDqKernel(
    const __grid_constant__ AttentionBackwardArguments<T> a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Tiles = HopperTiles<kPieces>;
  const Tiles tiles;
  const ResultPlace at;
  const int head = static_cast<int>(a.head);
  const int heads = static_cast<int>(a.heads), kv_heads = static_cast<int>(a.kv_heads);
  const int b = static_cast<int>(blockIdx.z), h = static_cast<int>(blockIdx.y);
  const int length = static_cast<int>(a.Length(b)), blocks = (length + 63) / 64;
  // Blocks with the last queries come first, because these see the most keys.
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * 64;
  if (first_query >= length) return;
  const int key_head = heads + h / (heads / kv_heads);
  const int64_t first_row = (int64_t{b} * heads + h) * a.sequence + first_query;  // row of lse
  const TileCopy<kPieces, T> keys(a.qkv + a.Packed(b, 0, key_head), a.Row(), length, head);
  const TileCopy<kPieces, T> values(a.qkv + a.Packed(b, 0, key_head + a.kv_heads), a.Row(), length,
                                    head);
  const auto copy = [&](int step, int stage) {
    keys.Start(tiles.Moving(stage, 0), step * 64);
    values.Start(tiles.Moving(stage, 1), step * 64);
    CommitCopies();
  };
  TileCopy<kPieces, T>(a.qkv + a.Packed(b, 0, h), a.Row(), length, head)
      .Start(tiles.Fixed(0), first_query);
  TileCopy<kPieces, T>(a.dout + a.Out(b, 0, h), a.heads * a.head, length, head)
      .Start(tiles.Fixed(1), first_query);
  const int begin = kRanges ? a.ranges.First(b, first_query) / 64 : 0;
  copy(begin, 0);

  {  // computes δ: two threads for a query, with all their loads at once
    const int row = threadIdx.x / 2;
    const bool there = first_query + row < length;
    const int64_t from = a.Out(b, first_query + row, h) + threadIdx.x % 2 * 8;
    float out[kPieces * 4][8] = {}, dout[kPieces * 4][8] = {};
#pragma unroll
    for (int i = 0; i < kPieces * 4; ++i) {
      if (!there || i * 16 + static_cast<int>(threadIdx.x) % 2 * 8 >= head) continue;
      LoadPack(a.out + from + i * 16, out[i]);
      LoadPack(a.dout + from + i * 16, dout[i]);
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPieces * 4; ++i) {
#pragma unroll
      for (int e = 0; e < 8; ++e) sum = fmaf(out[i][e], dout[i][e], sum);
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    if (threadIdx.x % 2 == 0) {
      const float2 pair = {there ? a.lse[first_row + row] * kLog2E : 0.0f,
                           sum / a.dropout.keep_scale};
      reinterpret_cast<float2*>(tiles.Floats(0))[row] = pair;
      if (there) reinterpret_cast<float2*>(a.delta)[first_row + row] = pair;
    }
  }
  __syncthreads();
  const int warp = threadIdx.x / 32;
  const float lse[2] = {tiles.Floats(0)[2 * at.row], tiles.Floats(0)[2 * at.row + 16]};
  const float delta[2] = {tiles.Floats(0)[2 * at.row + 1], tiles.Floats(0)[2 * at.row + 17]};
  const float scale = a.scale * kLog2E;
  const WeightDropper<kDropout, false> dropper(a.dropout);

  float dq[kPieces][32] = {};
  const int steps = a.causal ? first_query / 64 + 1 : blocks;
  const int cut = kRanges ? a.ranges.LastFirst(b, first_query + 64, length) : 0;
  int stage = 0;
  for (int step = begin; step < steps; ++step) {
    const int next = stage + 1 == Tiles::kStages ? 0 : stage + 1;
    WaitForCopies<0>();
    __syncthreads();
    if (Tiles::kStages == 3 && step + 1 < steps) copy(step + 1, next);
    float s[32], dp[32];
    ProductsBegin();
    StartRowProducts<T, kPieces>(s, tiles.Fixed(0), tiles.Moving(stage, 0));
    StartRowProducts<T, kPieces>(dp, tiles.Fixed(1), tiles.Moving(stage, 1));
    WaitForProducts<1>(s);
    if (Tiles::kStages == 2) {
      __syncthreads();
      if (step + 1 < steps) copy(step + 1, next);
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) s[i] = Exp2(fmaf(s[i], scale, -lse[i / 2 % 2]));
    // Only the last step contains the diagonal or the sequence's end.
    if (step + 1 == steps) {
      const int last = a.causal ? -1 : length - 1 - step * 64;
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        if (at.Column(i) > (a.causal ? at.Row(i) : last)) s[i] = 0;
      }
    }
    if (kRanges && step * 64 < cut) {
      HideEarlierKeys(a.ranges, b, first_query, length, step * 64, 0, s);
    }
    dropper.template Mark<2>(s, a.dropout.Row(b, h), first_query + warp * 16, step * 64);
    WaitForProducts<0>(dp);
#pragma unroll
    for (int i = 0; i < 32; ++i) dp[i] = dropper.Gradient(s[i], dp[i], delta[i / 2 % 2]);
    uint32_t weights[4][4];
    PackWeights<T>(dp, weights);
    ProductsBegin();
    StartWeightedRows<T, kPieces>(dq, weights, tiles.Moving(stage, 0));
    stage = next;
  }
  WaitForProducts<0>(dq);
  StoreTile<kPieces>(dq, a.scale * a.dropout.keep_scale, a.dqkv + a.Packed(b, first_query, h),
                     a.Row(), length - first_query, head, a.largest);
#endif
}

template <typename T, int kPieces, bool kDropout, bool kRanges>
__global__ __launch_bounds__(kWarpgroup, kPieces == 1 ? 3 : 2) void HopperDkdvKernel(
    const __grid_constant__ AttentionBackwardArguments<T> a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Tiles = HopperTiles<kPieces>;
  const Tiles tiles;
  const ResultPlace at;
  const int head = static_cast<int>(a.head);
  const int first_key = static_cast<int>(blockIdx.x) * 64;  // the first keys have the most queries
  const int heads = static_cast<int>(a.heads), kv_heads = static_cast<int>(a.kv_heads);
  const int b = static_cast<int>(blockIdx.z), g = static_cast<int>(blockIdx.y);
  const int length = static_cast<int>(a.Length(b)), blocks = (length + 63) / 64;
  if (first_key >= length) return;
  const int group = heads / kv_heads;
  const int first_block = a.causal ? first_key / 64 : 0;
  const int end = kRanges ? a.ranges.EndTile(b, 64, first_key + 64, first_block, blocks) : blocks;

  // The step whose tiles are copied next: a block of queries of one of the group's heads.
  int h = g * group;
  int block = first_block;
  const auto copy = [&](int stage) {
    TileCopy<kPieces, T>(a.qkv + a.Packed(b, 0, h), a.Row(), length, head)
        .Start(tiles.Moving(stage, 0), block * 64);
    TileCopy<kPieces, T>(a.dout + a.Out(b, 0, h), a.heads * a.head, length, head)
        .Start(tiles.Moving(stage, 1), block * 64);
    if (threadIdx.x < 64) {
      const int query = block * 64 + static_cast<int>(threadIdx.x);
      const bool there = query < length;
      const int64_t row = (int64_t{b} * heads + h) * a.sequence;
      CopyPair(SharedAddress(tiles.Floats(stage) + threadIdx.x * 2),
               a.delta + (row + (there ? query : 0)) * 2, there);
    }
    CommitCopies();
    if (++block == end) {
      block = first_block;
      ++h;
    }
  };
  TileCopy<kPieces, T>(a.qkv + a.Packed(b, 0, a.heads + g), a.Row(), length, head)
      .Start(tiles.Fixed(0), first_key);
  TileCopy<kPieces, T>(a.qkv + a.Packed(b, 0, a.heads + a.kv_heads + g), a.Row(), length, head)
      .Start(tiles.Fixed(1), first_key);
  copy(0);
  const float scale = a.scale * kLog2E;
  const int warp = threadIdx.x / 32;
  const WeightDropper<kDropout> dropper(a.dropout);

  float dk[kPieces][32] = {}, dv[kPieces][32] = {};
  int stage = 0, now = first_block, now_head = g * group;
  for (int left = group * (end - first_block); left > 0; --left) {
    const int next = stage + 1 == Tiles::kStages ? 0 : stage + 1;
    WaitForCopies<0>();
    __syncthreads();
    if (Tiles::kStages == 3 && left > 1) copy(next);
    // The rows of s and dp are keys, their columns are queries.
    float s[32], dp[32];
    ProductsBegin();
    StartRowProducts<T, kPieces>(s, tiles.Fixed(0), tiles.Moving(stage, 0));
    StartRowProducts<T, kPieces>(dp, tiles.Fixed(1), tiles.Moving(stage, 1));
    WaitForProducts<1>(s);
    if (Tiles::kStages == 2) {
      __syncthreads();
      if (left > 1) copy(next);
    }
    // Loads lse and δ of two neighbouring queries.
    const float4* const pairs =
        reinterpret_cast<const float4*>(tiles.Floats(stage)) + at.column / 2;
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
      const float4 two = pairs[i];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[i + e] = Exp2(fmaf(s[i + e], scale, e % 2 == 0 ? -two.x : -two.z));
      }
    }
    if (a.causal && now == first_block) {  // the diagonal
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        if (at.Row(i) > at.Column(i)) s[i] = 0;
      }
    }
    if (kRanges && a.ranges.LastFirst(b, now * 64 + 64, length) > first_key) {
      HideFromLaterQueries(a.ranges, b, now * 64, length, first_key, s);
    }
    dropper.template Mark<2>(s, a.dropout.Row(b, now_head), now * 64, first_key + warp * 16);
    if (++now == end) {
      now = first_block;
      ++now_head;
    }
    uint32_t weights[4][4];
    dropper.template PackKept<T>(s, weights);
    ProductsBegin();
    StartWeightedRows<T, kPieces>(dv, weights, tiles.Moving(stage, 1));
    WaitForProducts<1>(dp);
    uint32_t gradients[4][4];
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
      const float4 two = pairs[i];
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        // Without dropout the rounded weights are used, so that the registers of the exact ones are
        // free.
        const uint32_t weight = weights[i / 8][i / 4 % 2 * 2 + e / 2];
        const float low = kDropout ? s[i + e] : Low<T>(weight);
        const float high = kDropout ? s[i + e + 1] : High<T>(weight);
        gradients[i / 8][i / 4 % 2 * 2 + e / 2] = PackTwo<T>(
            dropper.Gradient(low, dp[i + e], two.y), dropper.Gradient(high, dp[i + e + 1], two.w));
      }
    }
    ProductsBegin();
    StartWeightedRows<T, kPieces>(dk, gradients, tiles.Moving(stage, 0));
    WaitForProducts<1>(dv);
    stage = next;
  }
  WaitForProducts<0>(dk);
  StoreTile<kPieces>(dk, a.scale * a.dropout.keep_scale,
                     a.dqkv + a.Packed(b, first_key, a.heads + g), a.Row(), length - first_key,
                     head, a.largest);
  StoreTile<kPieces>(dv, a.dropout.keep_scale,
                     a.dqkv + a.Packed(b, first_key, a.heads + a.kv_heads + g), a.Row(),
                     length - first_key, head, a.largest);
#endif
}

}  // namespace

template <typename T>
void LaunchHopperBackward(const AttentionBackwardArguments<T>& a, cudaStream_t stream) {
  const auto launch = [&]<int kPieces, bool kDropout, bool kRanges>() {
    const auto start = [&](auto kernel, int64_t heads, const char* name) {
      constexpr int kBytes = HopperTiles<kPieces>::kBytes;
      gpu::AllowSharedMemory(kernel, kBytes);
      const dim3 blocks(static_cast<unsigned>((a.sequence + 63) / 64), static_cast<unsigned>(heads),
                        static_cast<unsigned>(a.batch));
      kernel<<<blocks, kWarpgroup, kBytes, stream>>>(a);
      gpu::CheckLaunch(name);
    };
    start(&HopperDqKernel<T, kPieces, kDropout, kRanges>, a.heads, "attention_backward: dq");
    start(&HopperDkdvKernel<T, kPieces, kDropout, kRanges>, a.kv_heads,
          "attention_backward: dk and dv");
  };
  DispatchDropoutAndRanges(a.dropout.rng != nullptr, a.ranges.cuts(),
                           [&]<bool kDropout, bool kRanges>() {
                             a.head <= 64 ? launch.template operator()<1, kDropout, kRanges>()
                                          : launch.template operator()<2, kDropout, kRanges>();
                           });
}

template void LaunchHopperBackward(const AttentionBackwardArguments<__nv_bfloat16>&, cudaStream_t);
template void LaunchHopperBackward(const AttentionBackwardArguments<__half>&, cudaStream_t);

}  // namespace plimsoll::ops
