// Gradients of blockwise attention on Hopper's tensor cores in one pass over the scores: bf16 and
// fp16, heads up to 64 wide and multiples of 8 (the formulas are in attention_backward.cuh). Five
// products and one exponential for each score; no atomic sums, so the same bits every time.
//
// A thread block has a unit (ops/attention/attention_backward_ways.h), whose dq, in float32, stays
// in its shared memory. It takes one block of 128 keys after another, and for each block the
// queries that see it, 64 at a time. Its four warpgroups:
//
//   one thread      has the copy engine bring keys, values, q, dout, lse and δ
//   scores (two)    64 keys each. Sᵀ = k·qᵀ and dPᵀ = v·doutᵀ, keys as rows, so that P and dS are
//                   in registers what the next products need on the left: dv += P·dout,
//                   dk += dS·q. dS also goes to shared memory. The next tile's S is under way
//                   while dk is computed; the two fill each other's waits.
//   dq              dqᵀ += kᵀ·dSᵀ, with kᵀ in registers: dq's sums come from shared memory and go
//                   back for each block, and are written when the last one was added
//
// dk and dv of a key block stay in registers while the unit's queries pass. Then they are added to
// the sums that earlier units left in scratch memory; the last unit writes them. Thread blocks take
// units in ascending order, so a unit that is waited for has always been taken before those that
// wait.
//
// Where documents of a row or a window limit what queries see, a unit begins with the first key
// block that its queries see, the tiles of a block end with the last one that sees it, and those
// units that see none of a block are left out of its order. Where rows are padded, each row is
// computed as one that ends where its padding begins: tiles and blocks of padding are left out, and
// in the last ones padding becomes zeros before it is multiplied.
//
// Bytes: q, dout, lse and δ once for every 128 keys and k and v once for every unit, mostly from
// L2; 32 KB for dk and dv of 64 keys there and back, for each unit but one; out and dout once.
#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/cuda/attention/attention_dropped_weights.cuh"
#include "ops/cuda/attention/attention_hopper.cuh"
#include "ops/cuda/attention/attention_largest_tiles.cuh"
#include "ops/cuda/attention/attention_one_pass.cuh"
#include "ops/cuda/attention/attention_range_tiles.cuh"
#include "ops/cuda/attention/attention_rows.cuh"
#include "ops/cuda/tensor_map.h"

namespace plimsoll::ops {
namespace {

// Ends a unit's work on dk and dv of 64 keys: adds the sums of earlier units; then leaves the sums
// to the next unit, or writes them.
template <bool kRanges, bool kPadded, typename T>
__device__ void FinishKeys(const OnePassArguments<T>& a, const OnePassUnit<kRanges, kPadded>& u,
                           int block, int half, float (&dk)[32], float (&dv)[32],
                           Promise& promise) {
  const int thread = threadIdx.x % kWarpgroup;
  const int64_t place = (int64_t{u.kv} * a.shared_blocks + block) * 2 + half;
  int* const added = a.counters + 1 + place;
  float4* const sums = reinterpret_cast<float4*>(a.sums) + place * 16 * kWarpgroup + thread;
  int order = u.order, writers = u.Writers(block);
  if constexpr (kRanges) {
    const int others = u.BlindChunks(a, block) * u.group;
    order -= others, writers -= others;
  }
  promise.Keep();
  if (order > 0) {
    while (LoadAcquire(added) != order) __nanosleep(32);
    __syncwarp();
    AddTileSums(sums, dk);
    AddTileSums(sums + 8 * kWarpgroup, dv);
  }
  if (order + 1 < writers) {
    LeaveTileSums(dk, sums);
    LeaveTileSums(dv, sums + 8 * kWarpgroup);
    SyncWarpgroup(1 + half);
    promise.added = added;
    promise.count = order + 1;
    return;
  }
  const int first_key = block * 128 + half * 64, count = u.Length(a) - first_key;
  const int head = a.heads + u.g;
  AddLargestOfTile<T>(dk, a.a.scale * a.a.dropout.keep_scale, count, a.width, a.a.largest);
  AddLargestOfTile<T>(dv, a.a.dropout.keep_scale, count, a.width, a.a.largest);
  StoreRows<T>(dk, a.a.scale * a.a.dropout.keep_scale, a.a.dqkv + a.a.Packed(u.b, first_key, head),
               a.a.Row(), count, a.width);
  StoreRows<T>(dv, a.a.dropout.keep_scale, a.a.dqkv + a.a.Packed(u.b, first_key, head + a.kv_heads),
               a.a.Row(), count, a.width);
}

constexpr int kThreads = 4 * kWarpgroup;

using Memory = OnePassMemory;
template <bool kRanges, bool kPadded>
using Unit = OnePassUnit<kRanges, kPadded>;

// Run by one thread: takes units and starts all copies, when their buffers are free.
template <bool kRanges, bool kPadded, typename T>
__device__ void BringTiles(const OnePassArguments<T>& a, const Memory& m) {
  Memory::Slot n;
  Memory::Single values, units;
#pragma unroll 1
  for (;; units.Step()) {
    int unit = atomicAdd(a.counters, 1);
    if constexpr (kPadded) {  // skips units without queries
      while (unit < a.units && Unit<kRanges, kPadded>(a, unit, 0).tiles == 0) {
        unit = atomicAdd(a.counters, 1);
      }
    }
    AwaitBarrier(m.UnitEmpty(), units.round ^ 1);
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(m.base + Memory::kUnitAt), "r"(unit) : "memory");
    if constexpr (kRanges) {
      if (unit < a.units) Unit<kRanges, kPadded>(a, unit, m.Ranges(units)).FindRanges(a);
    }
    Arrive(m.UnitFull());
    if (unit >= a.units) return;
    const Unit<kRanges, kPadded> u(a, unit, m.Ranges(units));
    const int64_t bh = int64_t{u.b} * a.heads + u.h;
    const float* const rows = a.rows + bh * a.tiles * 2 * kOnePassStep;
    const auto keys_or_values = [&](int block, int head, uint32_t to, uint32_t full) {
      ExpectBytes(full, Memory::kSlotBytes);
      for (int half = 0; half < 2; ++half) {
        LoadHead(to + half * kOperandTile, &a.qkv, u.b, block * 128 + half * 64, head, full);
      }
    };
#pragma unroll 1
    for (int block = u.FirstBlock(0), end = 0; block < u.blocks; ++block, values.Step()) {
      m.AwaitEmpty(n);
      keys_or_values(block, a.heads + u.g, m.Tile(n), m.Full(n));
      n.Step();
      const int first = u.FirstTile(block);
      end = u.EndTile(block, end);
#pragma unroll 1
      for (int tile = first; tile < end; ++tile, n.Step()) {
        const int number = u.first + tile;
        m.AwaitEmpty(n);
        ExpectBytes(m.Full(n), Memory::kSlotBytes + Memory::kRowBytes);
        LoadHead(m.Tile(n), &a.qkv, u.b, number * 64, u.h, m.Full(n));
        LoadHead(m.Tile(n) + kOperandTile, &a.dout, u.b, number * 64, u.h, m.Full(n));
        LoadBytes(m.Rows(n), rows + int64_t{number} * 2 * kOnePassStep, Memory::kRowBytes,
                  m.Full(n));
        if (tile == first) {
          m.AwaitValuesEmpty(values);
          keys_or_values(block, a.heads + a.kv_heads + u.g, m.Values(), m.ValuesFull());
        }
      }
    }
  }
}

// Run by a warpgroup that computes scores, for half `half` of each block's keys.
template <bool kDropout, bool kRanges, bool kPadded, typename T>
__device__ void AddKeyGradients(const OnePassArguments<T>& a, const Memory& m, int half) {
  const ResultPlace at;
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kWarpgroup / 32;
  const float scale = a.a.scale * kLog2E;
  // The row of an 8 × 8 matrix that this lane addresses. The 16-byte pieces of further matrices are
  // found by changing bits 5 and 6 of the address.
  const uint32_t offset =
      half * kOperandTile + PieceOffset(warp * 16 + lane / 8 % 2 * 8 + lane % 8, lane / 16);
  Memory::Slot n;
  Memory::Stage stage;
  Memory::Single values_at;
  Promise promise;
  const WeightDropper<kDropout> dropper(a.a.dropout);
  ForEachUnit<Unit<kRanges, kPadded>>(a, m, [&](const Unit<kRanges, kPadded>& u) {
    // Queries in padding have weights of 1, but these are multiplied by zeros.
    const auto await_tile = [&](Memory::Slot at, int tile) {
      m.AwaitFull(at);
      if (kPadded && tile + 1 == u.tiles) {
        ClearPaddingOf<2>(m.Tile(at), u.Length(a) - (u.first + tile) * 64, 1 + half);
      }
    };
#pragma unroll 1
    for (int block = u.FirstBlock(0), end = 0; block < u.blocks; ++block, values_at.Step()) {
      end = u.EndTile(block, end);
      uint32_t keys[4][4];
      m.AwaitFull(n);
#pragma unroll
      for (int k = 0; k < 4; ++k) LoadMatrices(keys[k], (m.Tile(n) + offset) ^ (k * 32));
      const uint32_t keys_empty = m.Empty(n);
      n.Step();
      const uint32_t values = m.Values() + half * kOperandTile;
      int tile = u.FirstTile(block);
      const int diagonal = block * 2 + half - u.first;  // the tile of these keys' queries
      if (u.causal && tile < diagonal) {                // the tile sees none of these keys
        m.AwaitFull(n);
        m.AwaitScoresEmpty(stage);
        ArriveByWarp(m.Empty(n));
        ArriveByWarp(m.ScoresFull(stage));
        ++tile;
        n.Step();
        stage.Step();
      }
      float dk[32] = {}, dv[32] = {};
      if (tile < end) {
        float s[32], dp[32];
        await_tile(n, tile);
        ProductsBegin();
        MultiplyHeldTile<T>(s, keys, m.Tile(n));
        CommitProducts();
        m.AwaitValuesFull(values_at);
        WaitForProducts<0>(s);
        if (kPadded && block + 1 == u.blocks) {
          ClearPaddingOf<1>(values, u.Length(a) - block * 128 - half * 64, 1 + half);
        }
        FenceSharedWrites();
        ArriveByWarp(keys_empty);
        uint32_t empty_before = 0;  // the barrier of the previous tile

        const auto step = [&](auto has_next) {
          constexpr bool kHasNext = decltype(has_next)::value;
          ProductsBegin();
          MultiplyTiles<T>(dp, values, m.Tile(n) + kOperandTile);
          CommitProducts();
          const uint32_t rows = m.Rows(n) + at.column * 4;
#pragma unroll
          for (int i = 0; i < 32; i += 4) {
            const float2 lse = LoadSharedTwo(rows + i * 8);
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              s[i + e] = Exp2(fmaf(s[i + e], scale, e % 2 == 0 ? -lse.x : -lse.y));
            }
          }
          if (u.causal ? tile == diagonal : block + 1 == u.blocks) {
            const int last = u.Length(a) - 1 - block * 128 - half * 64;
#pragma unroll
            for (int i = 0; i < 32; ++i) {
              // Keys in padding come after all queries except those in padding.
              const int column = kPadded ? min(at.Column(i), last) : at.Column(i);
              if (at.Row(i) > (u.causal ? column : last)) s[i] = 0;
            }
          }
          if (const int first_key = block * 128 + half * 64; kRanges && u.Cut(tile) > first_key) {
            HideFromLaterQueries(a.a.ranges, u.b, (u.first + tile) * 64, a.length, first_key, s);
          }
          dropper.template Mark<2>(s, a.a.dropout.Row(u.b, u.h), (u.first + tile) * 64,
                                   block * 128 + half * 64 + warp * 16);
          uint32_t weights[4][4];
          dropper.template PackKept<T>(s, weights);
          ProductsBegin();
          AddWeightedTile<T>(dv, weights, m.Tile(n) + kOperandTile);
          CommitProducts();
          WaitForProducts<1>(dp);
          if (empty_before != 0) ArriveByWarp(empty_before);
          if constexpr (!kHasNext) ArriveByWarp(m.ValuesEmpty());
          empty_before = m.Empty(n);
#pragma unroll
          for (int i = 0; i < 32; i += 4) {
            const float2 delta = LoadSharedTwo(rows + kOnePassStep * 4 + i * 8);
#pragma unroll
            for (int e = 0; e < 4; ++e)
              dp[i + e] = dropper.Gradient(s[i + e], dp[i + e], e % 2 == 0 ? delta.x : delta.y);
          }
          uint32_t gradients[4][4];
          PackWeights<T>(dp, gradients);
          m.AwaitScoresEmpty(stage);
#pragma unroll
          for (int k = 0; k < 4; ++k)
            StoreMatrices((m.Scores(stage) + offset) ^ (k * 32), gradients[k]);
          FenceSharedWrites();
          ArriveByWarp(m.ScoresFull(stage));
          const Memory::Slot next = n.Next();
          if constexpr (kHasNext) {
            await_tile(next, tile + 1);
            ProductsBegin();
            MultiplyHeldTile<T>(s, keys, m.Tile(next));
            CommitProducts();
          }
          ProductsBegin();
          AddWeightedTile<T>(dk, gradients, m.Tile(n));
          CommitProducts();
          if constexpr (kHasNext) WaitForProducts<0>(s);
          n = next;
          stage.Step();
        };
#pragma unroll 1
        for (; tile + 1 < end; ++tile) {
          step(std::true_type{});
          promise.Keep();
        }
        step(std::false_type{});
        WaitForProducts<0>(dv);
        WaitForProducts<0>(dk);
        ArriveByWarp(empty_before);
      } else {
        ArriveByWarp(keys_empty);
        m.AwaitValuesFull(values_at);
        ArriveByWarp(m.ValuesEmpty());
      }
      FinishKeys(a, u, block, half, dk, dv, promise);
    }
  });
  promise.Keep();
}

// Run by the warpgroup that computes dq.
template <bool kRanges, bool kPadded, typename T>
__device__ void AddQueryGradients(const OnePassArguments<T>& a, const Memory& m) {
  const int thread = threadIdx.x % kWarpgroup, lane = threadIdx.x % 32, warp = thread / 32;
  // The row of a transposed 8 × 8 matrix that this lane addresses.
  const uint32_t offset = PieceOffset(lane / 16 * 8 + lane % 8, warp * 2 + lane / 8 % 2);
  constexpr int kName = 3;
  Memory::Slot n;
  Memory::Stage stage;
  ForEachUnit<Unit<kRanges, kPadded>>(a, m, [&](const Unit<kRanges, kPadded>& u) {
#pragma unroll 1
    for (int block = u.FirstBlock(0), end = 0; block < u.blocks; ++block) {
      uint32_t keys[8][4];  // transposed: the rows are the head's elements
      m.AwaitFull(n);
#pragma unroll
      for (int k = 0; k < 8; ++k) LoadTransposedMatrices(keys[k], m.Tile(n) + offset + k * 2048);
      if (kPadded && block + 1 == u.blocks) ClearHeldKeys(keys, u.Length(a) - block * 128);
      uint32_t keys_empty = m.Empty(n);
      n.Step();
      end = u.EndTile(block, end);
      for (int tile = u.FirstTile(block); tile < end; ++tile, n.Step(), stage.Step()) {
        const int number = u.first + tile;
        const bool added = block > u.FirstBlock(tile);  // whether earlier blocks have added to it
        const uint32_t sums = m.Sums(tile) + thread * 16;
        float dq[32];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float4 sum = added ? LoadSharedFour(sums + i * kWarpgroup * 16) : float4{};
          dq[4 * i] = sum.x, dq[4 * i + 1] = sum.y, dq[4 * i + 2] = sum.z, dq[4 * i + 3] = sum.w;
        }
        m.AwaitScoresFull(stage);
        ArriveByWarp(m.Empty(n));
        const auto add = [&](auto both) {
          ProductsBegin();
          AddWeightedTile<T>(dq, keys, m.Scores(stage));
          if constexpr (decltype(both)::value) {
            AddWeightedTile<T>(dq, keys + 4, m.Scores(stage) + kOperandTile);
          }
          CommitProducts();
          WaitForProducts<0>(dq);
        };
        if (u.causal && number == block * 2) {  // the tile sees no key of the block's second half
          add(std::false_type{});
        } else {
          add(std::true_type{});
        }
        ArriveByWarp(m.ScoresEmpty(stage));
        if (keys_empty != 0) {
          FenceSharedWrites();
          ArriveByWarp(keys_empty);
          keys_empty = 0;
        }
        if (block != (u.causal ? number / 2 : u.blocks - 1)) {
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            StoreSharedFour(sums + i * kWarpgroup * 16,
                            {dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]});
          }
          continue;
        }
        // After the last block, writes dq to memory, through the memory of the sums.
#pragma unroll
        for (int i = 0; i < 32; ++i) dq[i] *= a.a.scale * a.a.dropout.keep_scale;
        // Rows are the head's elements, columns are queries.
        AddLargestOfTile<T>(dq, 1, a.width, u.Length(a) - number * 64, a.a.largest);
        uint32_t packed[4][4];
        PackWeights<T>(dq, packed);
        SyncWarpgroup(kName);  // all threads have read their sums
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          StoreTransposedMatrices(m.Sums(tile) + offset + k * 2048, packed[k]);
        }
        FenceSharedWrites();
        SyncWarpgroup(kName);
        if (thread == 0) StoreHead(&a.dqkv, u.b, number * 64, u.h, m.Sums(tile));
      }
    }
    if (thread == 0) AwaitStoredBoxes<0>();
    SyncWarpgroup(kName);  // the memory of the sums is free
  });
}

template <typename T, bool kDropout, bool kRanges, bool kPadded>
__global__ __launch_bounds__(kThreads,
                             1) void OnePassKernel(const __grid_constant__ OnePassArguments<T> a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
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
    LeaveRegisters<32>();
    if (threadIdx.x == 0) BringTiles<kRanges, kPadded>(a, m);
  } else if (role == 3) {
    LeaveRegisters<96>();
    AddQueryGradients<kRanges, kPadded>(a, m);
  } else {
    TakeRegisters<192>();
    AddKeyGradients<kDropout, kRanges, kPadded>(a, m, role - 1);
  }
#endif
}

}  // namespace

template <typename T>
void LaunchOnePassBackward(const AttentionBackwardArguments<T>& a, const OnePassAttention& pass,
                           void* scratch, int processors, cudaStream_t stream) {
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  constexpr graph::DType kType =
      std::is_same_v<T, __half> ? graph::DType::kFloat16 : graph::DType::kBFloat16;
  char* const memory = static_cast<char*>(scratch);
  OnePassArguments<T> o{};
  const int64_t all_heads = a.heads + 2 * a.kv_heads;
  o.qkv = MapHeads({a.qkv, kType, a.batch, a.sequence, all_heads, a.head});
  o.dout = MapHeads({a.dout, kType, a.batch, a.sequence, a.heads, a.head});
  o.dqkv = MapHeads({a.dqkv, kType, a.batch, a.sequence, all_heads, a.head});
  o.a = a;
  o.rows = reinterpret_cast<float*>(memory);
  o.sums = reinterpret_cast<float*>(memory + pass.row_bytes);
  o.counters = reinterpret_cast<int*>(memory + pass.row_bytes + pass.sum_bytes);
  o.batch = narrow(a.batch), o.heads = narrow(a.heads), o.kv_heads = narrow(a.kv_heads);
  o.length = narrow(a.sequence), o.width = narrow(a.head);
  o.chunk_tiles = narrow(pass.queries / kOnePassStep);
  o.chunks = narrow(pass.chunks), o.tiles = narrow(pass.tiles), o.blocks = narrow(pass.blocks);
  o.shared_blocks = narrow(pass.shared_blocks), o.units = narrow(pass.units);
  o.causal = a.causal;
  LaunchAttentionRows<8>(a, o.rows, pass.tiles, o.counters, pass.counters, stream);
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(pass.units, processors));
  DispatchDropoutAndMask(a.dropout.rng != nullptr, a.ranges.cuts(), a.lengths != nullptr,
                         [&]<bool kDropout, bool kRanges, bool kPadded>() {
                           auto* const kernel = &OnePassKernel<T, kDropout, kRanges, kPadded>;
                           gpu::AllowSharedMemory(kernel, Memory::kBytes);
                           kernel<<<blocks, kThreads, Memory::kBytes, stream>>>(o);
                         });
  gpu::CheckLaunch("attention_backward: one pass");
}

template void LaunchOnePassBackward(const AttentionBackwardArguments<__nv_bfloat16>&,
                                    const OnePassAttention&, void*, int, cudaStream_t);
template void LaunchOnePassBackward(const AttentionBackwardArguments<__half>&,
                                    const OnePassAttention&, void*, int, cudaStream_t);

}  // namespace plimsoll::ops
