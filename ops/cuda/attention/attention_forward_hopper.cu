// Blockwise attention on Hopper's tensor cores (the formulas are in ops/attention/attention.h):
// bf16 and fp16, heads up to 256 wide and multiples of 8. Used with dropout, with a soft cap
// (attention_softcap.cuh), or if documents of a row or a window limit what queries see. In all
// other cases cuDNN's kernels are used, which cannot use our draws.
//
// A persistent thread block takes one unit after another: 64 queries of a head for each computing
// warpgroup. It has three of these for heads up to 64 wide, otherwise two. Its warpgroups:
//
//   one thread   lets the copy engine fetch queries, and keys and values in the order of their use
//   the others   loop from the last keys that their queries see to the first ones, with a step of
//   128
//                or 64 keys (HopperForwardMemory::kKeys): S = q·kᵀ; softmax; out += P·v. S of a
//                step and P·v of the previous step are started together; softmax runs during P·v.
//                For heads up to 128 wide, the warpgroups start their products in turn.
//
// Only the first step, which has the last keys, contains the diagonal and the sequence's end. In
// that step each query sees a key, so that its largest score is finite from then on: keys that are
// hidden in later steps have a weight of exactly zero and change no bit.
//
// Units of different lengths are ordered by length, the longest first, so that thread blocks end at
// about the same time; units of equal length are ordered by head, so that k and v stay in L2.
// Bytes: q and out once, k and v once for every unit, mostly from L2; 4 for lse of each query.
#include <cmath>

#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/cuda/attention/attention_forward_hopper.cuh"
#include "ops/cuda/attention/attention_hopper.cuh"
#include "ops/cuda/attention/attention_largest_tiles.cuh"
#include "ops/cuda/attention/attention_range_tiles.cuh"
#include "ops/cuda/products/wide_products.cuh"
#include "ops/cuda/tensor_map.h"

namespace plimsoll::ops {

namespace {

// Starts the copies in the order in which the other warpgroups use them: the last step's keys, then
// always the keys of a step and the values of the step after it.
template <bool kRanges, typename T, typename Memory>
__device__ void BringForwardTiles(const HopperForwardArguments<T>& a, const Memory& m) {
  typename Memory::Slot n;
  unsigned done = 0;  // number of units done
#pragma unroll 1
  for (int round = 0; round * static_cast<int>(gridDim.x) < a.units; ++round) {
    const int unit = HopperForwardUnitAt(round);
    if (unit >= a.units) break;
    const HopperForwardUnit<Memory, kRanges> u(a, unit);
    if (!u.exists()) continue;
    const auto bring = [&](int step, int head) {
      AwaitBarrier(m.Empty(n), n.round ^ 1);
      ExpectBytes(m.Full(n), Memory::kTile);
      for (int i = 0; i < Memory::kPieces * Memory::kBlocks; ++i) {
        const int piece = i / Memory::kBlocks, block = i % Memory::kBlocks;
        LoadHead(m.Tile(n) + i * kOperandTile, &a.qkv, u.b, step * Memory::kKeys + block * 64, head,
                 m.Full(n), piece * 64);
      }
      n.Step();
    };
    AwaitBarrier(m.QueriesEmpty(done), m.Round(done) ^ 1);
    ExpectBytes(m.QueriesFull(done), Memory::kWarpgroups * Memory::kQueryTile);
    for (int part = 0; part < Memory::kWarpgroups; ++part) {
      for (int piece = 0; piece < Memory::kPieces; ++piece) {
        LoadHead(m.Queries(done, part) + piece * kOperandTile, &a.qkv, u.b, u.first + part * 64,
                 u.h, m.QueriesFull(done), piece * 64);
      }
    }
    ++done;
    const int keys = a.heads + u.g, values = keys + a.kv_heads;
    bring(u.steps - 1, keys);
    for (int step = u.steps - 2; step >= u.begin; --step) {
      bring(step, keys);
      bring(step + 1, values);
    }
    bring(u.begin, values);
  }
}

// The draws of a tile that a thread needs; without dropout there are none.
struct NoDraws {
  __device__ static bool Kept(int, uint32_t) { return true; }
};

// s = q·kᵀ for 64 queries and the keys of a step.
template <typename T, typename Memory>
__device__ void StartScores(float (&s)[Memory::kBlocks][32], uint32_t queries, uint32_t keys) {
  const uint32_t left = LowerHalf(queries), right = LowerHalf(keys);
  ProductsBegin();
#pragma unroll
  for (int k = 0; k < 4 * Memory::kPieces; ++k) {
    const uint64_t a = OperandAt(left, k / 4 * kOperandTile + k % 4 * 32);
    const uint64_t b = OperandAt(right, k / 4 * Memory::kPiece + k % 4 * 32);
    if constexpr (Memory::kBlocks == 1) {
      MultiplyShared<T>(s[0], a, b, k > 0);
    } else {
      MultiplyWide<T, Contiguous::kInner, Contiguous::kInner>(reinterpret_cast<float(&)[64]>(s), a,
                                                              b, k > 0);
    }
  }
  CommitProducts();
}

// out += weights·v
template <typename T, typename Memory>
__device__ void StartOutput(float (&out)[Memory::kPieces][32],
                            const uint32_t (&weights)[Memory::kBlocks][4][4], uint32_t values) {
  ProductsBegin();
#pragma unroll
  for (int i = 0; i < Memory::kPieces * Memory::kBlocks; ++i) {
    AddWeightedTile<T>(out[i / Memory::kBlocks], weights[i % Memory::kBlocks],
                       values + i * kOperandTile);
  }
  CommitProducts();
}

template <bool kDropout, bool kRanges, typename T, typename Memory, typename Softcap>
__device__ void AttendUnits(const HopperForwardArguments<T>& a, const Memory& m, int part,
                            const Softcap& softcap) {
  constexpr int kPieces = Memory::kPieces, kBlocks = Memory::kBlocks, kKeys = Memory::kKeys;
  using Draws = std::conditional_t<kDropout, TileDraws<false, 4 * kBlocks>, NoDraws>;
  const ResultPlace at;
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kWarpgroup / 32;
  const AttentionDropout& dropout = a.dropout;
  const uint2 rng = kDropout ? dropout.Key() : uint2{};
  const ProductTurns<Memory> turns(part);
  typename Memory::Slot n;
  unsigned done = 0;  // number of units done
#pragma unroll 1
  for (int round = 0; round * static_cast<int>(gridDim.x) < a.units; ++round) {
    const int unit = HopperForwardUnitAt(round);
    if (unit >= a.units) break;
    const HopperForwardUnit<Memory, kRanges> u(a, unit);
    if (!u.exists()) continue;
    const int first = u.first + part * 64;  // first query
    const int64_t row = int64_t{u.b} * a.heads + u.h;
    const uint64_t draws_at = ScoreTile(dropout, dropout.Row(u.b, u.h), first + warp * 16, 0);
    // The steps of these queries, from `top` down to `begin`, and the first key that all see.
    const int top = a.causal ? min(u.steps - 1, first / kKeys) : u.steps - 1;
    const int begin = kRanges ? a.ranges.LastFirst(u.b, first + 1, u.length) / kKeys : 0;
    const int cut = kRanges ? a.ranges.LastFirst(u.b, first + 64, u.length) : 0;

    float s[kBlocks][32], out[kPieces][32] = {};
    float largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
    float shrink[2];
    uint32_t weights[kBlocks][4][4];
    const auto await_slot = [&](typename Memory::Slot slot) {
      AwaitBarrier(m.Full(slot), slot.round);
    };
    const auto start_scores = [&] { StartScores<T, Memory>(s, m.Queries(done, part), m.Tile(n)); };
    const auto start_output = [&] {
      await_slot(n);
      StartOutput<T, Memory>(out, weights, m.Tile(n));
    };
    const auto draws_of = [&](int step) -> Draws {
      if constexpr (kDropout) {
        return {dropout, rng, draws_at + static_cast<uint64_t>(step * (kKeys / 16)), 1};
      } else {
        return {};
      }
    };
    // Scores become weights, some of which are dropped. Every query that is not padding sees a key
    // of step `top`: its own or the last one. So its largest score is finite from there on.
    const auto softmax = [&](int step, const Draws& draws) {
      if (kRanges && step * kKeys < cut) {
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          HideEarlierKeys(a.ranges, u.b, first, u.length, step * kKeys + block * 64, -INFINITY,
                          s[block]);
        }
      }
      float most[2][2] = {{largest[0], largest[0]}, {largest[1], largest[1]}};
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        float& of_row = most[i / 2 % 2][i % 2];
        of_row = fmaxf(of_row, s[i / 32][i % 32]);
      }
      float base[2], sum[2][2] = {};
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float of_row = fmaxf(most[r][0], most[r][1]);
        of_row = fmaxf(of_row, __shfl_xor_sync(~0u, of_row, 1));
        of_row = fmaxf(of_row, __shfl_xor_sync(~0u, of_row, 2));
        shrink[r] = Exp2((largest[r] - of_row) * a.scale);
        largest[r] = of_row;
        base[r] = of_row * a.scale;
      }
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        float& weight = s[i / 32][i % 32];
        weight = Exp2(fmaf(weight, a.scale, -base[i / 2 % 2]));
        sum[i / 2 % 2][i % 2] += weight;
        if (!draws.Kept(i, dropout.threshold << 16)) weight = 0;
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) total[r] = fmaf(total[r], shrink[r], sum[r][0] + sum[r][1]);
    };
    const auto cap_scores = [&] {
      if constexpr (Softcap::kCaps) {
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) s[i / 32][i % 32] = softcap.Product(s[i / 32][i % 32]);
      }
    };
    const auto pack_weights = [&] {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) PackWeights<T>(s[block], weights[block]);
    };
    const auto free_slot = [&] {
      ArriveByWarp(m.Empty(n));
      n.Step();
    };
    const auto skip = [&] {
      await_slot(n);
      free_slot();
    };

    // Skips keys and values that only later warpgroups see, up to the keys of step `top`.
    for (int step = u.steps - 1; step > top; --step) {
      skip();
      if (step < u.steps - 1) skip();
      turns.Await();
      turns.Pass();
    }
    AwaitBarrier(m.QueriesFull(done), m.Round(done));
    await_slot(n);
    start_scores();
    {
      const Draws draws = draws_of(top);
      WaitForProducts<0>(s);
      free_slot();
      cap_scores();
      // Skips the values of the step after it.
      if (top < u.steps - 1) skip();
        // Only this step contains the diagonal or the sequence's end.
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int query = a.causal ? first + at.Row(2 * r) : u.length;
        const int last = min(query, u.length - 1) - top * kKeys - at.column;
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
          if (i / 2 % 2 == r && i / 4 * 8 + i % 2 > last) s[i / 32][i % 32] = -INFINITY;
        }
      }
      softmax(top, draws);
    }
    pack_weights();
    await_slot(n);
    if (a.lengths != nullptr && (top + 1) * kKeys > u.length) {
      const typename Memory::Slot values = top > u.begin ? n.Next() : n;
      await_slot(values);
      for (int i = 0; i < kPieces * kBlocks; ++i) {
        const int seen = u.length - top * kKeys - i % kBlocks * 64;
        if (seen < 64) ClearPadding<1>(m.Tile(values) + i * kOperandTile, max(seen, 0), 1 + part);
      }
    }
#pragma unroll 1
    for (int step = top - 1; step >= begin; --step) {
      const typename Memory::Slot keys = n;
      turns.Await();
      start_scores();
      n.Step();
      start_output();
      turns.Pass();
      const Draws draws = draws_of(step);
      WaitForProducts<1>(s);
      ArriveByWarp(m.Empty(keys));
      cap_scores();
      softmax(step, draws);
      // A loop ends a basic block. Without it, the assembler would put the wait for the products
      // before softmax, which would then overlap with nothing.
      await_slot(n.Next());
      WaitForProducts<0>(out);
      free_slot();
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
        for (int i = 0; i < 32; ++i) out[piece][i] *= shrink[i / 2 % 2];
      }
      pack_weights();
    }
    ArriveByWarp(m.QueriesEmpty(done));
    ++done;
    if (begin > u.begin) skip();  // keys that these queries don't see
    start_output();
    WaitForProducts<0>(out);
    free_slot();
    // Skips the steps that only other warpgroups need: keys and values, except the keys skipped
    // above.
    for (int step = begin - 1; step >= u.begin; --step) {
      turns.Await();
      turns.Pass();
      skip();
      if (step > u.begin) skip();
    }

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

template <typename T, int kPieces, bool kDropout, bool kRanges, typename Softcap>
__global__ __launch_bounds__(
    HopperForwardMemory<kPieces, kDropout>::kThreads,
    1) void HopperForwardKernel(const __grid_constant__ HopperForwardArguments<T> a,
                                const __grid_constant__ Softcap softcap) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Memory = HopperForwardMemory<kPieces, kDropout>;
  extern __shared__ __align__(1024) char memory[];
  const Memory m{SharedAddress(memory)};
  if (threadIdx.x == 0) {
    if (m.base % 1024 != 0) __trap();
    m.InitBarriers();
  }
  __syncthreads();
  // All threads of a warp have the same role; the shuffle tells the compiler so.
  const int role = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
  if (role == 0) {
    LeaveRegisters<Memory::kRegistersOfCopies>();
    if (threadIdx.x == 0) BringForwardTiles<kRanges>(a, m);
  } else {
    TakeRegisters<Memory::kRegisters>();
    AttendUnits<kDropout, kRanges>(a, m, role - 1, softcap);
  }
#endif
}

}  // namespace

template <typename T>
void LaunchHopperForward(const AttentionForwardArguments<T>& a, int processors, cudaStream_t stream,
                         const ScoreSoftcap& softcap) {
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
  const auto launch = [&]<int kPieces, bool kDropout, bool kRanges>(const auto& cap) {
    using Memory = HopperForwardMemory<kPieces, kDropout>;
    constexpr int kQueries = 64 * Memory::kWarpgroups;
    h.tiles = (h.sequence + kQueries - 1) / kQueries;
    h.units = h.tiles * h.batch * h.heads;
    auto* const kernel =
        &HopperForwardKernel<T, kPieces, kDropout, kRanges, std::decay_t<decltype(cap)>>;
    gpu::AllowSharedMemory(kernel, Memory::kBytes);
    const auto blocks = static_cast<unsigned>(std::min(h.units, processors));
    kernel<<<blocks, Memory::kThreads, Memory::kBytes, stream>>>(h, cap);
  };
  const auto launch_width = [&]<int kPieces>() {
    const bool drops = a.dropout.rng != nullptr;
    // With a soft cap, the kernels for ranges are also used for calls without ranges.
    if (softcap.caps()) {
      return drops ? launch.template operator()<kPieces, true, true>(softcap)
                   : launch.template operator()<kPieces, false, true>(softcap);
    }
    if (!drops) return launch.template operator()<kPieces, false, true>(NoSoftcap());
    a.ranges.cuts() ? launch.template operator()<kPieces, true, true>(NoSoftcap())
                    : launch.template operator()<kPieces, true, false>(NoSoftcap());
  };
  if (a.head <= 64) {
    launch_width.template operator()<1>();
  } else if (a.head <= 128) {
    launch_width.template operator()<2>();
  } else {
    a.head <= 192 ? launch_width.template operator()<3>() : launch_width.template operator()<4>();
  }
  gpu::CheckLaunch("attention");
}

template void LaunchHopperForward(const AttentionForwardArguments<__nv_bfloat16>&, int,
                                  cudaStream_t, const ScoreSoftcap&);
template void LaunchHopperForward(const AttentionForwardArguments<__half>&, int, cudaStream_t,
                                  const ScoreSoftcap&);

}  // namespace plimsoll::ops
