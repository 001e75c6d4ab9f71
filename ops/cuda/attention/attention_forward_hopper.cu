// Blockwise attention on Hopper's tensor cores with dropout, or where documents of a row or a
// window limit what queries see (the formulas are in ops/attention/attention.h): bf16 and fp16,
// heads up to 256 wide and multiples of 8. Otherwise cuDNN's kernels are used, which know no draws
// of ours.
//
// A thread block stays, and takes one unit after another: 64 queries of a head for each computing
// warpgroup, of which there are three for heads up to 64 wide, otherwise two. Its warpgroups:
//
//   one thread   has the copy engine bring queries, and keys and values in the order of their use
//   the others   S = q·kᵀ, 64 keys at a time, with q in registers if its head is at most 128 wide;
//                softmax; out += P·v. The next S is under way while P·v is, and the draws are made
//                meanwhile.
//
// Units of different lengths come in the order of their length, the longest first, so that thread
// blocks end together; equal ones head by head, so that k and v stay in L2.
// Bytes: q and out once, k and v once for every unit, mostly from L2; 4 for lse of each query.
#include <cmath>

#include "gpu/check.h"
#include "ops/cuda/attention/attention_forward_hopper.cuh"
#include "ops/cuda/attention/attention_hopper.cuh"
#include "ops/cuda/attention/attention_largest_tiles.cuh"
#include "ops/cuda/attention/attention_range_tiles.cuh"
#include "ops/cuda/tensor_map.h"

namespace plimsoll::ops {

namespace {

template <bool kRanges, typename T, typename Memory>
__device__ void BringForwardTiles(const HopperForwardArguments<T>& a, const Memory& m) {
  typename Memory::Slot n;
  typename Memory::Single units;
#pragma unroll 1
  for (int unit = static_cast<int>(blockIdx.x); unit < a.units;
       unit += static_cast<int>(gridDim.x)) {
    const HopperForwardUnit<Memory::kWarpgroups, kRanges> u(a, unit);
    if (!u.exists()) continue;
    const auto bring = [&](int step, int head) {
      AwaitBarrier(m.Empty(n), n.round ^ 1);
      ExpectBytes(m.Full(n), Memory::kTile);
      for (int piece = 0; piece < Memory::kPieces; ++piece) {
        LoadHead(m.Tile(n) + piece * kOperandTile, &a.qkv, u.b, step * 64, head, m.Full(n),
                 piece * 64);
      }
      n.Step();
    };
    AwaitBarrier(m.QueriesEmpty(), units.round ^ 1);
    ExpectBytes(m.QueriesFull(), Memory::kWarpgroups * Memory::kTile);
    for (int part = 0; part < Memory::kWarpgroups; ++part) {
      for (int piece = 0; piece < Memory::kPieces; ++piece) {
        LoadHead(m.Queries(part) + piece * kOperandTile, &a.qkv, u.b, u.first + part * 64, u.h,
                 m.QueriesFull(), piece * 64);
      }
    }
    units.Step();
    const int keys = a.heads + u.g, values = keys + a.kv_heads;
    bring(u.begin, keys);
    for (int step = u.begin + 1; step < u.steps; ++step) {
      bring(step, keys);
      bring(step - 1, values);
    }
    bring(u.steps - 1, values);
  }
}

// What a thread needs of a tile's draws: without dropout nothing.
struct NoDraws {
  __device__ static bool Kept(int, uint32_t) { return true; }
};

template <bool kDropout, bool kRanges, typename T, typename Memory>
__device__ void AttendUnits(const HopperForwardArguments<T>& a, const Memory& m, int part) {
  constexpr int kPieces = Memory::kPieces;
  using Draws = std::conditional_t<kDropout, TileDraws<false>, NoDraws>;
  const ResultPlace at;
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kWarpgroup / 32;
  const AttentionDropout& dropout = a.dropout;
  const uint2 rng = kDropout ? dropout.Key() : uint2{};
  // The row of an 8 × 8 matrix of the queries that this lane addresses.
  const uint32_t offset = PieceOffset(warp * 16 + lane / 8 % 2 * 8 + lane % 8, lane / 16);
  typename Memory::Slot n;
  typename Memory::Single units;
#pragma unroll 1
  for (int unit = static_cast<int>(blockIdx.x); unit < a.units;
       unit += static_cast<int>(gridDim.x)) {
    const HopperForwardUnit<Memory::kWarpgroups, kRanges> u(a, unit);
    if (!u.exists()) continue;
    const int first = u.first + part * 64;  // query
    const int steps = a.causal ? min(u.steps, first / 64 + 1) : u.steps;
    const int64_t row = int64_t{u.b} * a.heads + u.h;
    const uint64_t draws_at = ScoreTile(dropout, dropout.Row(u.b, u.h), first + warp * 16, 0);
    // The first step of these queries, and the first key that all of them see.
    const int begin = kRanges ? a.ranges.LastFirst(u.b, first + 1, u.length) / 64 : 0;
    const int cut = kRanges ? a.ranges.LastFirst(u.b, first + 64, u.length) : 0;

    uint32_t q[Memory::kHeld ? kPieces : 1][4][4];
    AwaitBarrier(m.QueriesFull(), units.round);
    units.Step();
    if constexpr (Memory::kHeld) {
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          LoadMatrices(q[piece][k], (m.Queries(part) + piece * kOperandTile + offset) ^ (k * 32));
        }
      }
    }
    float s[32], out[kPieces][32] = {};
    float largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
    float shrink[2];
    uint32_t weights[4][4];
    const auto start_scores = [&] {
      AwaitBarrier(m.Full(n), n.round);
      ProductsBegin();
      if constexpr (Memory::kHeld) {
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
          const uint32_t keys = LowerHalf(m.Tile(n) + piece * kOperandTile);
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            MultiplyHeld<T>(s, q[piece][k], OperandAt(keys, k * 32), piece + k > 0);
          }
        }
      } else {
        MultiplyTiles<T, kPieces>(s, m.Queries(part), m.Tile(n));
      }
      CommitProducts();
    };
    const auto start_output = [&](int step) {
      AwaitBarrier(m.Full(n), n.round);
      if (a.lengths != nullptr && (step + 1) * 64 > u.length) {
        ClearPadding<kPieces>(m.Tile(n), u.length - step * 64, 1 + part);
      }
      ProductsBegin();
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        AddWeightedTile<T>(out[piece], weights, m.Tile(n) + piece * kOperandTile);
      }
      CommitProducts();
    };
    // Scores become weights, of which some are dropped.
    const auto softmax = [&](int step, const Draws& draws) {
      if (step + 1 == steps) {
        // Only the last step touches the diagonal or the sequence's end.
        const int last = u.length - 1 - step * 64, diagonal = first - step * 64;
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          const bool hidden =
              at.Column(i) > last || (a.causal && at.Column(i) > at.Row(i) + diagonal);
          if (hidden) s[i] = -INFINITY;
        }
      }
      if (kRanges && step * 64 < cut) {
        HideEarlierKeys(a.ranges, u.b, first, u.length, step * 64, -INFINITY, s);
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float most = largest[r];
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          if (i / 2 % 2 == r) most = fmaxf(most, s[i]);
        }
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        shrink[r] = Exp2((largest[r] - most) * a.scale);
        largest[r] = most;
        float base = most * a.scale;
        // A query that sees none of the keys so far has only −∞.
        if (kRanges && most == -INFINITY) shrink[r] = 1, base = 0;
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          if (i / 2 % 2 != r) continue;
          s[i] = Exp2(fmaf(s[i], a.scale, -base));
          sum += s[i];
          if (!draws.Kept(i, dropout.threshold << 16)) s[i] = 0;
        }
        total[r] = fmaf(total[r], shrink[r], sum);
      }
    };
    const auto draws_of = [&](int step) -> Draws {
      if constexpr (kDropout) {
        return {dropout, rng, draws_at + static_cast<uint64_t>(step * 4), 1};
      } else {
        return {};
      }
    };
    const auto free_slot = [&] {
      ArriveByWarp(m.Empty(n));
      n.Step();
    };

    const auto free_queries = [&](int step) {
      if (step == (Memory::kHeld ? begin : steps - 1)) ArriveByWarp(m.QueriesEmpty());
    };
    const auto skip = [&] {
      AwaitBarrier(m.Full(n), n.round);
      free_slot();
    };

    // Keys and values that only the warpgroups before see, up to the keys of the first step.
    if constexpr (kRanges) {
      for (int left = 2 * (begin - u.begin) - 1; left > 0; --left) skip();
    }
    start_scores();
    {
      const Draws draws = draws_of(begin);
      WaitForProducts<0>(s);
      free_queries(begin);
      free_slot();
      if (kRanges && begin > u.begin) skip();  // values of the step before
      softmax(begin, draws);
    }
    PackWeights<T>(s, weights);
#pragma unroll 1
    for (int step = begin + 1; step < steps; ++step) {
      const typename Memory::Slot keys = n;
      start_scores();
      n.Step();
      start_output(step - 1);
      const Draws draws = draws_of(step);
      WaitForProducts<1>(s);
      free_queries(step);
      ArriveByWarp(m.Empty(keys));
      softmax(step, draws);
      WaitForProducts<0>(out);
      free_slot();
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
        for (int i = 0; i < 32; ++i) out[piece][i] *= shrink[i / 2 % 2];
      }
      PackWeights<T>(s, weights);
    }
    if (steps < u.steps) skip();  // keys that these queries don't see
    start_output(steps - 1);
    WaitForProducts<0>(out);
    free_slot();
    // Of the other warpgroups' steps: keys and values but the keys above.
    for (int left = 2 * (u.steps - steps) - 1; left > 0; --left) skip();

    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      total[r] += __shfl_xor_sync(~0u, total[r], 1);
      total[r] += __shfl_xor_sync(~0u, total[r], 2);
      factor[r] = dropout.keep_scale / total[r];
      const int query = first + at.row + r * 8;
      if (a.lse != nullptr && lane % 4 == 0 && query < u.length) {
        a.lse[row * a.sequence + query] = largest[r] * a.scale / kLog2E + logf(total[r]);
      }
    }
    T* const to = a.out + ((int64_t{u.b} * a.sequence + first) * a.heads + u.h) * a.head;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
      for (int i = 0; i < 32; ++i) out[piece][i] *= factor[i / 2 % 2];
    }
    AddLargestOfTiles<T>(out, 1, u.length - first, a.head, a.largest);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      StoreRows<T>(out[piece], 1, to + piece * 64, int64_t{a.heads} * a.head, u.length - first,
                   a.head - piece * 64);
    }
  }
}

template <typename T, int kPieces, bool kDropout, bool kRanges>
__global__ __launch_bounds__(HopperForwardMemory<kPieces>::kThreads, 1) void HopperForwardKernel(
    const __grid_constant__ HopperForwardArguments<T> a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Memory = HopperForwardMemory<kPieces>;
  extern __shared__ __align__(1024) char memory[];
  const Memory m{SharedAddress(memory)};
  if (threadIdx.x == 0) {
    if (m.base % 1024 != 0) __trap();
    m.InitBarriers();
  }
  __syncthreads();
  // The same for all threads of a warp; the shuffle tells the compiler so.
  const int role = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
  if (role == 0) {
    LeaveRegisters<Memory::kRegistersOfCopies>();
    if (threadIdx.x == 0) BringForwardTiles<kRanges>(a, m);
  } else {
    TakeRegisters<Memory::kRegisters>();
    AttendUnits<kDropout, kRanges>(a, m, role - 1);
  }
#endif
}

}  // namespace

template <typename T>
void LaunchHopperForward(const AttentionForwardArguments<T>& a, int processors,
                         cudaStream_t stream) {
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  constexpr graph::DType kType =
      std::is_same_v<T, __half> ? graph::DType::kFloat16 : graph::DType::kBFloat16;
  HopperForwardArguments<T> h{};
  h.qkv = MapHeads({a.q, kType, a.batch, a.queries, a.heads + 2 * a.kv_heads, a.head});
  h.out = a.out;
  h.lse = a.lse;
  h.largest = a.largest;
  h.lengths = a.lengths;
  h.dropout = a.dropout;
  h.ranges = a.ranges;
  h.scale = a.scale * kLog2E;
  h.batch = narrow(a.batch), h.heads = narrow(a.heads), h.kv_heads = narrow(a.kv_heads);
  h.head = narrow(a.head), h.sequence = narrow(a.queries);
  h.causal = a.causal;
  const auto launch = [&]<int kPieces>() {
    using Memory = HopperForwardMemory<kPieces>;
    constexpr int kQueries = 64 * Memory::kWarpgroups;
    h.tiles = (h.sequence + kQueries - 1) / kQueries;
    h.units = h.tiles * h.batch * h.heads;
    auto* const kernel = a.dropout.rng == nullptr ? &HopperForwardKernel<T, kPieces, false, true>
                         : a.ranges.cuts()        ? &HopperForwardKernel<T, kPieces, true, true>
                                                  : &HopperForwardKernel<T, kPieces, true, false>;
    gpu::Check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Memory::kBytes),
        "cudaFuncSetAttribute");
    const auto blocks = static_cast<unsigned>(std::min(h.units, processors));
    kernel<<<blocks, Memory::kThreads, Memory::kBytes, stream>>>(h);
  };
  if (a.head <= 64) {
    launch.template operator()<1>();
  } else if (a.head <= 128) {
    launch.template operator()<2>();
  } else {
    a.head <= 192 ? launch.template operator()<3>() : launch.template operator()<4>();
  }
  gpu::CheckLaunch("attention");
}

template void LaunchHopperForward(const AttentionForwardArguments<__nv_bfloat16>&, int,
                                  cudaStream_t);
template void LaunchHopperForward(const AttentionForwardArguments<__half>&, int, cudaStream_t);

}  // namespace plimsoll::ops
