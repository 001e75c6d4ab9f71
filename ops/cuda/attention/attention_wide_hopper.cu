// Gradients of blockwise attention on Hopper's tensor cores in one pass over the scores: bf16 and
// fp16, heads up to 128 wide and multiples of 8 (the formulas are in attention_backward.cuh). Five
// products and one exponential for each score; sums in a fixed order, so the same bits every time.
//
// A thread block has a unit (ops/attention/attention_backward_ways.h): 128 keys, whose dk and dv
// stay in registers while the queries pass, 64 at a time. Its three warpgroups:
//
//   four threads    bring keys, values, q, dout, lse and δ; add to dq in scratch memory, when it is
//                   the unit's turn (attention_wide.cuh)
//   scores (two)    64 keys each. Sᵀ = k·qᵀ and dPᵀ = v·doutᵀ, keys as rows, so that P and dS are
//                   in registers what the next products need on the left: dv += P·dout,
//                   dk += dS·q. dS also goes to shared memory: one tile later, each computes
//                   dq = dSᵀ·k for half of the columns and all 128 keys
//
// Of the units that add to dq of a tile, the first one stores it in scratch memory, the copy engine
// adds those of others, and the last one gets the sum, adds its own and writes the result. A turn
// has mostly come before the unit gets there, since the units of a head are two tiles apart.
//
// Where documents of a row or a window limit what queries see, a unit ends with the last tile that
// sees its keys, and a tile's turns with the first key block that it sees. Where rows are padded,
// each row is computed as one that ends where its padding begins: tiles and blocks of padding are
// left out, and in the last ones padding becomes zeros before it is multiplied.
//
// Bytes: k and v once for each part of the heads; q, dout, lse and δ once for every 128 keys,
// mostly from L2; 32 KB for dq of 64 queries there for every 128 keys, and back once; 128 KB for dk
// and dv of 128 keys there and back for each part but one; out and dout once.
#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/cuda/attention/attention_dropped_weights.cuh"
#include "ops/cuda/attention/attention_hopper.cuh"
#include "ops/cuda/attention/attention_largest_tiles.cuh"
#include "ops/cuda/attention/attention_range_tiles.cuh"
#include "ops/cuda/attention/attention_rows.cuh"
#include "ops/cuda/attention/attention_wide.cuh"
#include "ops/cuda/tensor_map.h"

namespace plimsoll::ops {

namespace {

constexpr int kThreads = 3 * kWarpgroup;

using Memory = WideMemory;
using Unit = WideUnit;

// Adds the sums of earlier units to dk and dv of 64 keys; then leaves the sums to the next unit, or
// writes them.
template <bool kPadded, typename T>
__device__ void FinishWideKeys(const WideArguments<T>& a, const Unit& u, int length, int half,
                               float (&dk)[2][32], float (&dv)[2][32], Promise& promise) {
  const int thread = threadIdx.x % kWarpgroup;
  if (a.parts > 1) {
    const int place = (u.kv % a.key_places * a.blocks + u.block) * 2 + half;
    int* const added = a.key_counts + place;
    const int after = u.kv / a.key_places * a.parts + u.part + 1;
    int before = after - 1;
    if (kPadded && u.part == 0) {  // the last head that used the place and had the block
      int kv = u.kv;
      do {
        kv -= a.key_places;
      } while (kv >= 0 && a.Length(kv / a.kv_heads) <= u.block * 128);
      before = kv < 0 ? 0 : (kv / a.key_places + 1) * a.parts;
    }
    float4* const sums =
        reinterpret_cast<float4*>(a.key_sums) + int64_t{place} * 32 * kWarpgroup + thread;
    promise.Keep();
    while (LoadAcquire(added) != before) __nanosleep(32);
    __syncwarp();
    const auto sums_of = [&](int tile) { return sums + tile * 8 * kWarpgroup; };
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      if (u.part > 0) {
        AddTileSums(sums_of(piece), dk[piece]);
        AddTileSums(sums_of(2 + piece), dv[piece]);
      }
      if (u.part + 1 < a.parts) {
        LeaveTileSums(dk[piece], sums_of(piece));
        LeaveTileSums(dv[piece], sums_of(2 + piece));
      }
    }
    SyncWarpgroup(2 + half);
    promise.added = added;
    promise.count = after;
    if (u.part + 1 < a.parts) return;
  }
  const int first_key = u.block * 128 + half * 64, count = length - first_key;
  const int head = a.heads + u.g;
  AddLargestOfTiles<T>(dk, a.a.scale * a.a.dropout.keep_scale, count, a.width, a.a.largest);
  AddLargestOfTiles<T>(dv, a.a.dropout.keep_scale, count, a.width, a.a.largest);
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    const int column = piece * 64, width = a.width - column;
    StoreRows<T>(dk[piece], a.a.scale * a.a.dropout.keep_scale,
                 a.a.dqkv + a.a.Packed(u.b, first_key, head) + column, a.a.Row(), count, width);
    StoreRows<T>(dv[piece], a.a.dropout.keep_scale,
                 a.a.dqkv + a.a.Packed(u.b, first_key, head + a.kv_heads) + column, a.a.Row(),
                 count, width);
  }
}

// Run by a warpgroup that computes scores, for half `half` of each block's keys and of dq's
// columns.
template <bool kDropout, bool kRanges, bool kPadded, typename T, typename Softcap>
__device__ void AddWideGradients(const WideArguments<T>& a, const Memory& m, int half,
                                 const Softcap& softcap) {
  using Tile = WideTile<kRanges, kPadded>;
  const ResultPlace at;
  const int thread = threadIdx.x % kWarpgroup, lane = thread % 32, warp = thread / 32;
  const float scale = a.a.scale * kLog2E;
  // The row of an 8 × 8 matrix that this lane addresses. The 16-byte pieces of further matrices are
  // found by changing bits 5 and 6 of the address.
  const uint32_t offset =
      half * kOperandTile + PieceOffset(warp * 16 + lane / 8 % 2 * 8 + lane % 8, lane / 16);
  // The shuffle keeps the compiler from computing the address again from the thread's number, which
  // is slow to read.
  const uint32_t sums_at = __shfl_sync(~0u, m.Sums(half) + thread * 16, lane);
  Memory::Slot n;
  Memory::Single keys, loaded;
  Memory::Pair scores, sums, before{1, 1};
  Promise promise;
  const WeightDropper<kDropout> dropper(a.a.dropout);
  ForEachWideUnit<true, kRanges, kPadded>(a, m, [&](int unit, int end, int length) {
    int left, block;  // of the unit; its other members are not kept in registers
    {
      const Unit u(a, unit, end);
      left = u.steps;
      block = u.block;
    }
    float dk[2][32] = {}, dv[2][32] = {}, s[32];
    float d[32];  // dP, then dq
    Memory::Pair scores_before = scores;
    int2 tile_before{};  // the tile whose dq is due
    const auto number = [](int2 tile) { return Tile(tile.x).Number(); };
    // Queries in padding have weights of 1, but these are multiplied by zeros.
    const auto clear_queries = [&] {
      if constexpr (kPadded) {
        const Tile tile(LoadTwo(m.TileOf(n)).x);
        ClearPaddingOf<4>(m.Queries(n), tile.Length(a) - tile.Number() * 64, 2 + half);
      }
    };
    const int first_key = block * 128 + half * 64;
    AwaitRound(m.KeysFull(), keys);
    keys.Step();
    if constexpr (kPadded) {
      // For dq both warpgroups read all keys, each after the other one has provided its scores.
      ClearPaddingOf<2>(m.Keys(half), length - first_key, 2 + half);
      ClearPaddingOf<2>(m.Values(half), length - first_key, 2 + half);
    }
    AwaitRound(m.Full(n), n);
    clear_queries();
    ProductsBegin();
    MultiplyTiles<T, 2>(s, m.Keys(half), m.Queries(n));
    CommitProducts();
    WaitForProducts<0>(s);

    const auto start_queries = [&] {
      const bool loads = WideTurn(a, block, Tile(tile_before.x)).Loads();
      if (loads) {
        AwaitRound(m.SumsLoaded(), loaded);
        loaded.Step();
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float4 sum = LoadSharedFour(sums_at + i * kWarpgroup * 16);
          d[4 * i] = sum.x, d[4 * i + 1] = sum.y, d[4 * i + 2] = sum.z, d[4 * i + 3] = sum.w;
        }
      }
      AwaitRound(m.ScoresFull(scores_before), scores_before);
      ProductsBegin();
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const uint32_t rows16 = k % 4 * 2048;
        MultiplyShared<T, /*kTransposed=*/true>(
            d, OperandAt(LowerHalf(m.Scores(scores_before)), k / 4 * kOperandTile + rows16),
            OperandAt(LowerHalf(m.Keys(k / 4) + half * kOperandTile), rows16), k > 0 || loads);
      }
      CommitProducts();
    };
    const auto finish_queries = [&] {
      ArriveByWarp(m.ScoresEmpty(scores_before));
      scores_before.Step();
      const WideTurn turn(a, block, Tile(tile_before.x));
      if (!turn.Loads()) AwaitRound(m.SumsEmpty(before), before);
      if (turn.Last()) {
        const AttentionDropout& rows = a.a.dropout;
        const int first = number(tile_before) * 64, b = tile_before.y / rows.heads;
        const int h = tile_before.y - b * rows.heads - rows.first_head;
        const int count = Tile(tile_before.x).Length(a) - first;
        AddLargestOfTile<T>(d, a.a.scale * a.a.dropout.keep_scale, count, a.width - half * 64,
                            a.a.largest);
        T* const to = a.a.dqkv + a.a.Packed(b, first, h) + half * 64;
        StoreRows<T>(d, a.a.scale * a.a.dropout.keep_scale, to, a.a.Row(), count,
                     a.width - half * 64);
      } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          StoreSharedFour(sums_at + i * kWarpgroup * 16,
                          {d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]});
        }
        FenceSharedWrites();
      }
      ArriveByWarp(m.SumsDone(sums));
      sums.Step();
      before.Step();
    };

    const auto step = [&](auto has_before, auto has_next) {
      constexpr bool kHasBefore = decltype(has_before)::value;
      constexpr bool kHasNext = decltype(has_next)::value;
      ProductsBegin();
      MultiplyTiles<T, 2>(d, m.Values(half), m.Dout(n));
      CommitProducts();
      const int2 tile = LoadTwo(m.TileOf(n));
      const uint32_t rows = m.Rows(n) + at.column * 4;
      float2 lse[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) lse[i] = LoadSharedTwo(rows + i * 32);
      // The wait has long been over: it only keeps the compiler from mixing the following code with
      // the start of the products.
      AwaitRound(m.Full(n), n);
#pragma unroll
      for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(s[i])::"memory");
      CapProducts(softcap, s);
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        s[i] = Exp2(fmaf(s[i], scale, i % 2 == 0 ? -lse[i / 4].x : -lse[i / 4].y));
      }
      // Hides keys after a query, and keys after the sequence's end.
      const int first_query = number(tile) * 64;
      if (a.causal ? first_query <= first_key : block + 1 == Tile(tile.x).Blocks(a)) {
        const int last = Tile(tile.x).Length(a) - 1 - first_key;
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          // Keys in padding come after all queries except those in padding.
          const int column = at.Column(i) + first_query - first_key;
          if (at.Row(i) > (!a.causal ? last : kPadded ? min(column, last) : column)) s[i] = 0;
        }
      }
      if (kRanges && Tile(tile.x).Cut() > first_key) {
        const int b = tile.y / a.a.dropout.heads;
        HideFromLaterQueries(a.a.ranges, b, first_query, a.length, first_key, s);
      }
      float2 delta[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) delta[i] = LoadSharedTwo(rows + kWideStep * 4 + i * 32);
      dropper.template Mark<2>(s, tile.y, first_query, first_key + warp * 16);
      uint32_t weights[4][4];
      dropper.template PackKept<T>(s, weights);
      ProductsBegin();
#pragma unroll
      for (int piece = 0; piece < 2; ++piece) {
        AddWeightedTile<T>(dv[piece], weights, m.Dout(n) + piece * kOperandTile);
      }
      CommitProducts();
      WaitForProducts<1>(d);
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        d[i] = dropper.Gradient(s[i], d[i], i % 2 == 0 ? delta[i / 4].x : delta[i / 4].y);
      }
      if constexpr (Softcap::kCaps) {
#pragma unroll
        for (int i = 0; i < 32; i += 2) {
          const float2 of = LoadSharedTwo(rows + i / 4 * 32);  // lse, read again to save registers
          d[i] *= softcap.Slope(fabsf(s[i]), of.x);
          d[i + 1] *= softcap.Slope(fabsf(s[i + 1]), of.y);
        }
      }
      uint32_t gradients[4][4];
      PackWeights<T>(d, gradients);
      AwaitRoundBefore(m.ScoresEmpty(scores), scores);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        StoreMatrices((m.Scores(scores) + offset) ^ (k * 32), gradients[k]);
      }
      FenceSharedWrites();
      ArriveByWarp(m.ScoresFull(scores));
      scores.Step();
      ProductsBegin();
#pragma unroll
      for (int piece = 0; piece < 2; ++piece) {
        AddWeightedTile<T>(dk[piece], gradients, m.Queries(n) + piece * kOperandTile);
      }
      CommitProducts();
      promise.Keep();
      if constexpr (kHasBefore) {
        start_queries();
        WaitForProducts<1>(dk);
      } else {
        WaitForProducts<0>(dk);
      }
      ArriveByWarp(m.Empty(n));
      n.Step();
      if constexpr (kHasNext) {
        AwaitRound(m.Full(n), n);
        clear_queries();
        ProductsBegin();
        MultiplyTiles<T, 2>(s, m.Keys(half), m.Queries(n));
        CommitProducts();
      }
      if constexpr (kHasBefore) {
        WaitForProducts<kHasNext>(d);
        finish_queries();
      }
      if constexpr (kHasNext) WaitForProducts<0>(s);
      tile_before = tile;
    };
    constexpr std::true_type kYes;
    constexpr std::false_type kNo;
    if (left == 1) {
      step(kNo, kNo);
    } else {
      step(kNo, kYes);
#pragma unroll 1
      for (; left > 2; --left) step(kYes, kYes);
      step(kYes, kNo);
    }
    start_queries();
    WaitForProducts<0>(d);
    ArriveByWarp(m.KeysEmpty());
    finish_queries();
    WaitForProducts<0>(dv);
    WaitForProducts<0>(dk);
    FinishWideKeys<kPadded>(a, Unit(a, unit), Tile(tile_before.x).Length(a), half, dk, dv, promise);
  });
  promise.Keep();
}

template <typename T, bool kDropout, bool kRanges, bool kPadded, typename Softcap>
__global__ __launch_bounds__(kThreads,
                             1) void WideKernel(const __grid_constant__ WideArguments<T> a,
                                                const __grid_constant__ Softcap softcap) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) char memory[];
  const Memory m{SharedAddress(memory)};
  if (threadIdx.x == 0) {
    if (m.base % 1024 != 0) __trap();
    m.InitBarriers();
  }
  __syncthreads();
  // All threads of a warp have the same number; the shuffle tells the compiler so.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < 4) {
    LeaveRegisters<24>();
    if (threadIdx.x == 0) BringWideTiles<kRanges, kPadded>(a, m);
    if (threadIdx.x == 32) AwaitTurns<kRanges, kPadded>(a, m);
    if (threadIdx.x == 64) AddSums(a, m, 0);
    if (threadIdx.x == 96) AddSums(a, m, 1);
  } else {
    TakeRegisters<240>();
    AddWideGradients<kDropout, kRanges, kPadded>(a, m, warp / 4 - 1, softcap);
  }
#endif
}

}  // namespace

template <typename T>
void LaunchWideBackward(const AttentionBackwardArguments<T>& a, const WideAttention& w,
                        void* scratch, int processors, cudaStream_t stream,
                        const ScoreSoftcap& softcap) {
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  constexpr graph::DType kType =
      std::is_same_v<T, __half> ? graph::DType::kFloat16 : graph::DType::kBFloat16;
  char* memory = static_cast<char*>(scratch);
  const auto take = [&](int64_t bytes) {
    char* const taken = memory;
    memory += bytes;
    return taken;
  };
  WideArguments<T> o{};
  const int64_t all_heads = a.heads + 2 * a.kv_heads;
  o.qkv = MapHeads({a.qkv, kType, a.batch, a.sequence, all_heads, a.head});
  o.dout = MapHeads({a.dout, kType, a.batch, a.sequence, a.heads, a.head});
  o.a = a;
  o.rows = reinterpret_cast<float*>(take(w.row_bytes));
  o.query_sums = reinterpret_cast<float*>(take(w.head_bytes));
  o.key_sums = reinterpret_cast<float*>(take(w.key_bytes));
  o.next_unit = reinterpret_cast<int*>(take(0));
  o.query_counts = o.next_unit + 1;
  o.key_counts = o.query_counts + w.head_places * w.tiles;
  o.batch = narrow(a.batch), o.heads = narrow(a.heads), o.kv_heads = narrow(a.kv_heads);
  o.length = narrow(a.sequence), o.width = narrow(a.head);
  o.tiles = narrow(w.tiles), o.blocks = narrow(w.blocks);
  o.parts = narrow(w.parts), o.part = narrow(w.part), o.units = narrow(w.units);
  o.head_places = narrow(w.head_places), o.key_places = narrow(w.key_places);
  o.causal = a.causal;
  LaunchAttentionRows<16>(a, o.rows, w.tiles, o.next_unit, w.counters, stream);
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(w.units, processors));
  const auto launch = [&]<bool kDropout, bool kRanges, bool kPadded>(const auto& cap) {
    auto* const kernel = &WideKernel<T, kDropout, kRanges, kPadded, std::decay_t<decltype(cap)>>;
    gpu::AllowSharedMemory(kernel, Memory::kBytes);
    kernel<<<blocks, kThreads, Memory::kBytes, stream>>>(o, cap);
  };
  const bool padded = a.lengths != nullptr;
  if (softcap.caps()) {
    DispatchCapped(a.dropout.rng != nullptr, softcap, [&]<bool kDropout, bool>(const auto& cap) {
      padded ? launch.template operator()<kDropout, false, true>(cap)
             : launch.template operator()<kDropout, true, false>(cap);
    });
  } else {
    DispatchDropoutAndMask(a.dropout.rng != nullptr, a.ranges.cuts(), padded,
                           [&]<bool kDropout, bool kRanges, bool kPadded>() {
                             launch.template operator()<kDropout, kRanges, kPadded>(NoSoftcap());
                           });
  }
  gpu::CheckLaunch("attention_backward: wide heads");
}

template void LaunchWideBackward(const AttentionBackwardArguments<__nv_bfloat16>&,
                                 const WideAttention&, void*, int, cudaStream_t,
                                 const ScoreSoftcap&);
template void LaunchWideBackward(const AttentionBackwardArguments<__half>&, const WideAttention&,
                                 void*, int, cudaStream_t, const ScoreSoftcap&);

}  // namespace plimsoll::ops
