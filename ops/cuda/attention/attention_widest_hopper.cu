// Gradients of blockwise attention on Hopper's tensor cores, bf16 and fp16, heads 136 to 256 wide
// and multiples of 8 (the formulas are in attention_backward.cuh), in two passes after one that
// finds δ:
//
//   dq     a unit is 128 queries of a head, 64 for each computing warpgroup, which walks over the
//          keys: S = q·kᵀ, dP = dout·vᵀ, dq += dS·k
//   dkdv   a unit is 64 keys of a key-value head. The queries of the group's heads pass. dk and dv
//          don't fit the registers of one warpgroup: the first one finds Sᵀ = k·qᵀ and
//          dv += P·dout, and gives P to the second one, which finds dPᵀ = v·doutᵀ and dk += dS·q
//
// P goes from one warpgroup to the other through shared memory in 16 bits, as dv's products use it,
// with what dropout drops in its signs (attention_dropped_weights.cuh): each thread reads what the
// thread in the same place has written.
//
// A thread block stays, and takes one unit after another; a third warpgroup has one thread, which
// takes them and has the copy engine bring tiles, also those of the next unit. Units come head by
// head, so that tiles stay in L2, and within a head the longest first. Every gradient has one
// writer and one order of summation, at the price of 7 products instead of 5. Under a soft cap
// (attention_softcap.cuh) weights, also those that are passed, say what the factors of dS are.
// Where documents of a row or a window limit what queries see, the thread that takes a unit finds
// the limit of its tiles and gives it along.
//
// Bytes: dq: q, dout and dq once, k and v once for every 128 queries; dkdv: k, v, dk and dv once, q
// and dout once for every 64 keys; mostly from L2. 16 for lse and δ of each query.
#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/attention/attention_backward_ways.h"
#include "ops/cuda/attention/attention_dropped_weights.cuh"
#include "ops/cuda/attention/attention_hopper.cuh"
#include "ops/cuda/attention/attention_largest_tiles.cuh"
#include "ops/cuda/attention/attention_range_tiles.cuh"
#include "ops/cuda/attention/attention_rows.cuh"
#include "ops/cuda/attention/attention_widest.cuh"
#include "ops/cuda/tensor_map.h"

namespace plimsoll::ops {

namespace {

constexpr int kWidestThreads = 3 * kWarpgroup;

// Starts the copies of 64 rows of a head; their bytes have been announced at the barrier.
template <int kPieces>
__device__ void LoadHeadTiles(uint32_t to, const CUtensorMap* map, int b, int row, int head,
                              uint32_t barrier) {
  for (int piece = 0; piece < kPieces; ++piece) {
    LoadHead(to + piece * kOperandTile, map, b, row, head, barrier, piece * 64);
  }
}

// Scales and writes a result of 64 rows, and raises its largest magnitude.
template <typename T, int kPieces>
__device__ void StoreHeadRows(const float (&from)[kPieces][32], float scale, T* to, int64_t stride,
                              int count, int width, uint32_t* largest) {
  AddLargestOfTiles<T>(from, scale, count, width, largest);
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    StoreRows<T>(from[piece], scale, to + piece * 64, stride, count, width - piece * 64);
  }
}

// d += weights·b, where b is kPieces adjacent tiles, as one group of products.
template <typename T, int kPieces>
__device__ void StartWeightedTiles(float (&d)[kPieces][32], const uint32_t (&weights)[4][4],
                                   uint32_t b) {
  ProductsBegin();
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    AddWeightedTile<T>(d[piece], weights, b + piece * kOperandTile);
  }
  CommitProducts();
}

template <bool kRanges, typename T, typename Memory>
__device__ void BringTilesOfQueries(const WidestArguments<T>& w, const Memory& m) {
  typename Memory::Slot n;
  const auto stay = [&](const WidestQueries& u) {
    for (int part = 0; part < 2; ++part) {
      const int first = u.first + part * 64;
      LoadHeadTiles<Memory::kPieces>(m.Queries(part), &w.qkv, u.b, first, u.h, m.UnitFull());
      LoadHeadTiles<Memory::kPieces>(m.Dout(part), &w.dout, u.b, first, u.h, m.UnitFull());
    }
  };
  const auto follow = [&](const WidestQueries& u) {
    const int keys = w.heads + u.g, values = keys + w.kv_heads;
    for (int i = 2 * u.begin; i < 2 * u.steps; ++i) {
      AwaitBarrier(m.Empty(n), n.round ^ 1);
      ExpectBytes(m.Full(n), Memory::kTile);
      LoadHeadTiles<Memory::kPieces>(m.Tile(n), &w.qkv, u.b, i / 2 * 64, i % 2 == 0 ? values : keys,
                                     m.Full(n));
      n.Step();
    }
  };
  TakeWidestUnits<WidestQueries, kRanges>(w, m, 4, stay, follow);
}

// Computes dq of the unit's queries [part · 64, part · 64 + 64).
template <bool kDropout, bool kRanges, typename T, typename Memory, typename Softcap>
__device__ void FindQueryGradients(const WidestArguments<T>& w, const Memory& m, int part,
                                   const Softcap& softcap) {
  constexpr int kPieces = Memory::kPieces;
  const ResultPlace at;
  const int warp = threadIdx.x % kWarpgroup / 32;
  const float scale = w.a.scale * kLog2E;
  const WeightDropper<kDropout, false> dropper(w.a.dropout);
  typename Memory::Slot n;
  ForEachWidestUnit<WidestQueries, kRanges>(w, m, [&](const WidestQueries& u, int unit) {
    // The other members of the unit are not kept in registers.
    int row, first, length, steps = 0, all_steps;  // row: of draws
    // With ranges: the batch row, the unit's first step and that of these queries, and the first
    // key that all of them see.
    int b = 0, all_begin = 0, begin = 0, cut = 0;
    float lse[2], delta[2];
    {
      row = static_cast<int>(w.a.dropout.Row(u.b, u.h));
      first = u.first + part * 64, length = u.length, all_steps = u.steps;
      if constexpr (kRanges) b = u.b, begin = steps = all_begin = u.begin;
      if (first < length) {
        steps = w.causal ? first / 64 + 1 : all_steps;
        if constexpr (kRanges) {
          begin = w.a.ranges.First(b, first) / 64;
          cut = w.a.ranges.LastFirst(b, first + 64, length);
        }
        const float* const rows = w.Rows(u.row, first / 64) + at.row;
        lse[0] = rows[0], lse[1] = rows[8];
        delta[0] = rows[64], delta[1] = rows[72];
      }
    }
    float dq[kPieces][32] = {}, s[32], dp[32];
    uint32_t gradients[4][4];
    const auto start_scores = [&](int step) {
      const typename Memory::Slot values = n, keys = n.Next();
      AwaitBarrier(m.Full(values), values.round);
      AwaitBarrier(m.Full(keys), keys.round);
      if (w.a.lengths != nullptr && (step + 1) * 64 > length) {
        ClearPadding<kPieces>(m.Tile(values), length - step * 64, 1 + part);
        ClearPadding<kPieces>(m.Tile(keys), length - step * 64, 1 + part);
      }
      ProductsBegin();
      MultiplyTiles<T, kPieces>(dp, m.Dout(part), m.Tile(values));
      CommitProducts();
      MultiplyTiles<T, kPieces>(s, m.Queries(part), m.Tile(keys));
      CommitProducts();
    };
    // Computes dS of the step, after its dP has been computed.
    const auto finish_scores = [&](int step) {
      ArriveByWarp(m.Empty(n));
      WaitForProducts<0>(s);
      const bool last_step = step + 1 == steps;
      if (last_step) ArriveByWarp(m.UnitEmpty());
      CapProducts(softcap, s);
#pragma unroll
      for (int i = 0; i < 32; ++i) s[i] = Exp2(fmaf(s[i], scale, -lse[i / 2 % 2]));
      // Only the last step contains the diagonal or the sequence's end.
      if (last_step) {
        const int last = length - 1 - step * 64;
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          if (at.Column(i) > (w.causal ? at.Row(i) : last)) s[i] = 0;
        }
      }
      if (kRanges && step * 64 < cut) {
        HideEarlierKeys(w.a.ranges, b, first, length, step * 64, 0, s);
      }
      dropper.template Mark<1>(s, row, first + warp * 16, step * 64);
#pragma unroll
      for (int i = 0; i < 32; ++i) dp[i] = dropper.Gradient(s[i], dp[i], delta[i / 2 % 2]);
      if constexpr (Softcap::kCaps) {
#pragma unroll
        for (int i = 0; i < 32; ++i) dp[i] *= softcap.Slope(fabsf(s[i]), lse[i / 2 % 2]);
      }
      PackWeights<T>(dp, gradients);
      n.Step();  // n: to the slot of the keys
    };
    // Skips keys and values that only the other warpgroup's queries see.
    const auto skip = [&](int tiles) {
      for (int left = 2 * tiles; left > 0; --left) {
        AwaitBarrier(m.Full(n), n.round);
        ArriveByWarp(m.Empty(n));
        n.Step();
      }
    };
    if constexpr (kRanges) skip(begin - all_begin);
    if (steps > begin) {
      start_scores(begin);
      WaitForProducts<1>(dp);
      finish_scores(begin);
#pragma unroll 1
      for (int step = begin + 1; step < steps; ++step) {
        const uint32_t before = m.Empty(n);
        StartWeightedTiles<T>(dq, gradients, m.Tile(n));
        n.Step();
        start_scores(step);
        WaitForProducts<1>(dp);  // also waits for dq
        ArriveByWarp(before);
        finish_scores(step);
      }
      StartWeightedTiles<T>(dq, gradients, m.Tile(n));
      WaitForProducts<0>(dq);
      ArriveByWarp(m.Empty(n));
      n.Step();
    } else {
      ArriveByWarp(m.UnitEmpty());
    }
    skip(all_steps - steps);
    const WidestQueries again(w, unit);
    StoreHeadRows<T>(dq, w.a.scale * w.a.dropout.keep_scale,
                     w.a.dqkv + w.a.Packed(again.b, first, again.h), w.a.Row(), length - first,
                     w.width, w.a.largest);
  });
}

template <bool kRanges, typename T, typename Memory>
__device__ void BringTilesOfKeys(const WidestArguments<T>& w, const Memory& m) {
  constexpr int kPieces = Memory::kPieces;
  typename Memory::Slot n;
  const auto stay = [&](const WidestKeys& u) {
    const int keys = w.heads + u.g, values = keys + w.kv_heads;
    LoadHeadTiles<kPieces>(m.Keys(), &w.qkv, u.b, u.first, keys, m.UnitFull());
    LoadHeadTiles<kPieces>(m.Values(), &w.qkv, u.b, u.first, values, m.UnitFull());
  };
  const auto follow = [&](const WidestKeys& u) {
    WidestStep step(u);
    for (int left = u.steps; left > 0; --left) {
      AwaitBarrier(m.Empty(n), n.round ^ 1);
      ExpectBytes(m.Full(n), Memory::kTile + Memory::kRowBytes);
      LoadHeadTiles<kPieces>(m.Tile(n), &w.qkv, u.b, step.tile * 64, step.h, m.Full(n));
      LoadBytes(m.Rows(n), w.Rows(u.b * w.heads + step.h, step.tile), Memory::kRowBytes, m.Full(n));
      n.Step();
      AwaitBarrier(m.Empty(n), n.round ^ 1);
      ExpectBytes(m.Full(n), Memory::kTile);
      LoadHeadTiles<kPieces>(m.Tile(n), &w.dout, u.b, step.tile * 64, step.h, m.Full(n));
      n.Step();
      step.Next(u);
    }
  };
  TakeWidestUnits<WidestKeys, kRanges>(w, m, 2, stay, follow);
}

// Clears padding of queries, or of their gradients. In padding weights are 1, but their products
// are then 0.
template <typename T, typename Memory>
__device__ void ClearPaddingOfStep(const WidestArguments<T>& w, const WidestKeys& u, int tile,
                                   uint32_t tiles, int name) {
  if (w.a.lengths != nullptr && (tile + 1) * 64 > u.length) {
    ClearPadding<Memory::kPieces>(tiles, u.length - tile * 64, name);
  }
}

// Computes P and dv of the unit's keys. Rows are keys, columns are queries.
template <bool kDropout, bool kRanges, typename T, typename Memory, typename Softcap>
__device__ void FindValueGradients(const WidestArguments<T>& w, const Memory& m,
                                   const Softcap& softcap) {
  constexpr int kPieces = Memory::kPieces, kName = 1;
  using Dropper = WeightDropper<kDropout>;
  const ResultPlace at;
  const int thread = threadIdx.x % kWarpgroup, warp = thread / 32;
  const float scale = w.a.scale * kLog2E;
  const Dropper dropper(w.a.dropout);
  typename Memory::Slot queries;  // slot of the current scores' queries; their dout is in the next
                                  // slot
  typename Memory::Pair passed;
  ForEachWidestUnit<WidestKeys, kRanges>(w, m, [&](const WidestKeys& u, int) {
    float dv[kPieces][32] = {}, s[32];
    uint32_t weights[4][4];
    WidestStep step(u);
    const auto start_scores = [&] {
      AwaitBarrier(m.Full(queries), queries.round);
      ClearPaddingOfStep<T, Memory>(w, u, step.tile, m.Tile(queries), kName);
      ProductsBegin();
      MultiplyTiles<T, kPieces>(s, m.Keys(), m.Tile(queries));
      CommitProducts();
    };
    const auto start_values = [&](typename Memory::Slot dout, int tile) {
      AwaitBarrier(m.Full(dout), dout.round);
      ClearPaddingOfStep<T, Memory>(w, u, tile, m.Tile(dout), kName);
      StartWeightedTiles<T>(dv, weights, m.Tile(dout));
    };
    const auto draw = [&] {
      return dropper.Draw(w.a.dropout.Row(u.b, step.h), step.tile * 64, u.first + warp * 16);
    };
    const auto exponentials = [&] {
      CapProducts(softcap, s);
      const uint32_t rows = m.Rows(queries) + at.column * 4;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float2 lse = LoadSharedTwo(rows + i * 32);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          s[i * 4 + e] = Exp2(fmaf(s[i * 4 + e], scale, e % 2 == 0 ? -lse.x : -lse.y));
        }
      }
      if (w.causal && step.tile == u.first_tile) {  // the diagonal
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          if (at.Row(i) > at.Column(i)) s[i] = 0;
        }
      }
      if (kRanges && w.a.ranges.LastFirst(u.b, step.tile * 64 + 64, u.length) > u.first) {
        HideFromLaterQueries(w.a.ranges, u.b, step.tile * 64, u.length, u.first, s);
      }
    };
    // Passes the weights to the other warpgroup, and keeps those that are not dropped.
    const auto pass = [&] {
      ArriveByWarp(m.Empty(queries));
      PackWeights<T>(s, weights);
      AwaitBarrier(m.WeightsEmpty(passed), passed.round ^ 1);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        StorePiece(m.Weights(passed) + (k * kWarpgroup + thread) * 16, weights[k]);
      }
      ArriveByWarp(m.WeightsFull(passed));
      passed.Step();
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) weights[k][i] = Dropper::template Left<T>(weights[k][i]);
      }
    };

    start_scores();
    {
      const typename Dropper::Draws draws = draw();
      WaitForProducts<0>(s);
      exponentials();
      dropper.Mark(s, draws);
    }
    pass();
#pragma unroll 1
    for (int left = u.steps - 1; left > 0; --left) {
      const typename Memory::Slot dout = queries.Next();
      const int tile = step.tile;
      queries = dout.Next();
      step.Next(u);
      start_scores();
      start_values(dout, tile);
      const typename Dropper::Draws draws = draw();
      WaitForProducts<1>(s);
      exponentials();
      dropper.Mark(s, draws);
      WaitForProducts<0>(dv);
      ArriveByWarp(m.Empty(dout));
      pass();
    }
    ArriveByWarp(m.UnitEmpty());
    queries.Step();
    start_values(queries, step.tile);
    WaitForProducts<0>(dv);
    ArriveByWarp(m.Empty(queries));
    queries.Step();
    StoreHeadRows<T>(dv, w.a.dropout.keep_scale,
                     w.a.dqkv + w.a.Packed(u.b, u.first, w.heads + w.kv_heads + u.g), w.a.Row(),
                     u.length - u.first, w.width, w.a.largest);
  });
}

// Computes dP and dk of the unit's keys, with weights from the other warpgroup.
template <bool kDropout, bool kRanges, typename T, typename Memory, typename Softcap>
__device__ void FindKeyGradients(const WidestArguments<T>& w, const Memory& m,
                                 const Softcap& softcap) {
  constexpr int kPieces = Memory::kPieces, kName = 2;
  const ResultPlace at;
  const int thread = threadIdx.x % kWarpgroup;
  const WeightDropper<kDropout> dropper(w.a.dropout);
  typename Memory::Slot queries;  // slot of the step's queries; their dout is in the next slot
  typename Memory::Pair passed;
  ForEachWidestUnit<WidestKeys, kRanges>(w, m, [&](const WidestKeys& u, int) {
    float dk[kPieces][32] = {}, dp[32];
    uint32_t gradients[4][4];
    WidestStep step(u);
    const auto start_weight_gradients = [&] {
      const typename Memory::Slot dout = queries.Next();
      AwaitBarrier(m.Full(dout), dout.round);
      ClearPaddingOfStep<T, Memory>(w, u, step.tile, m.Tile(dout), kName);
      ProductsBegin();
      MultiplyTiles<T, kPieces>(dp, m.Values(), m.Tile(dout));
      CommitProducts();
    };
    start_weight_gradients();
#pragma unroll 1
    for (int left = u.steps; left > 0; --left) {
      WaitForProducts<0>(dp);
      ArriveByWarp(m.Empty(queries.Next()));
      if (left == 1) ArriveByWarp(m.UnitEmpty());
      AwaitBarrier(m.Full(queries), queries.round);
      ClearPaddingOfStep<T, Memory>(w, u, step.tile, m.Tile(queries), kName);
      AwaitBarrier(m.WeightsFull(passed), passed.round);
      const uint32_t rows = m.Rows(queries) + 64 * 4 + at.column * 4;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        LoadPiece(gradients[k], m.Weights(passed) + (k * kWarpgroup + thread) * 16);
      }
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const float2 delta = LoadSharedTwo(rows + i / 2 * 32);
        uint32_t& two = gradients[i / 4][i % 4];
        float low = dropper.Gradient(Low<T>(two), dp[i * 2], delta.x);
        float high = dropper.Gradient(High<T>(two), dp[i * 2 + 1], delta.y);
        if constexpr (Softcap::kCaps) {
          const float2 lse = LoadSharedTwo(rows - 64 * 4 + i / 2 * 32);
          low *= softcap.Slope(fabsf(Low<T>(two)), lse.x);
          high *= softcap.Slope(fabsf(High<T>(two)), lse.y);
        }
        two = PackTwo<T>(low, high);
      }
      ArriveByWarp(m.WeightsEmpty(passed));
      passed.Step();
      StartWeightedTiles<T>(dk, gradients, m.Tile(queries));
      const typename Memory::Slot before = queries;
      queries = queries.Next().Next();
      step.Next(u);
      if (left > 1) {
        start_weight_gradients();
        WaitForProducts<1>(dk);
      } else {
        WaitForProducts<0>(dk);
      }
      ArriveByWarp(m.Empty(before));
    }
    StoreHeadRows<T>(dk, w.a.scale * w.a.dropout.keep_scale,
                     w.a.dqkv + w.a.Packed(u.b, u.first, w.heads + u.g), w.a.Row(),
                     u.length - u.first, w.width, w.a.largest);
  });
}

// Assigns roles to the warpgroups: one thread fetches tiles, and two warpgroups compute. `compute`
// gets the number of its warpgroup.
template <typename Memory, typename Bring, typename Compute>
__device__ void RunWidest(const Bring& bring, const Compute& compute) {
  extern __shared__ __align__(1024) char memory[];
  const Memory m{{SharedAddress(memory)}};
  if (threadIdx.x == 0) {
    if (m.base % 1024 != 0) __trap();
    m.InitBarriers();
  }
  __syncthreads();
  // All threads of a warp have the same role; the shuffle tells the compiler so.
  const int role = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
  if (role == 0) {
    LeaveRegisters<24>();
    if (threadIdx.x == 0) bring(m);
  } else {
    TakeRegisters<240>();
    compute(m, role - 1);
  }
}

template <typename T, int kPieces, bool kDropout, bool kRanges, typename Softcap>
__global__ __launch_bounds__(kWidestThreads,
                             1) void WidestDqKernel(const __grid_constant__ WidestArguments<T> w,
                                                    const __grid_constant__ Softcap softcap) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Memory = WidestQueriesMemory<kPieces>;
  RunWidest<Memory>([&](const Memory& m) { BringTilesOfQueries<kRanges>(w, m); },
                    [&](const Memory& m, int part) {
                      FindQueryGradients<kDropout, kRanges>(w, m, part, softcap);
                    });
#endif
}

template <typename T, int kPieces, bool kDropout, bool kRanges, typename Softcap>
__global__ __launch_bounds__(kWidestThreads,
                             1) void WidestDkdvKernel(const __grid_constant__ WidestArguments<T> w,
                                                      const __grid_constant__ Softcap softcap) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Memory = WidestKeysMemory<kPieces>;
  RunWidest<Memory>([&](const Memory& m) { BringTilesOfKeys<kRanges>(w, m); },
                    [&](const Memory& m, int part) {
                      part == 0 ? FindValueGradients<kDropout, kRanges>(w, m, softcap)
                                : FindKeyGradients<kDropout, kRanges>(w, m, softcap);
                    });
#endif
}

}  // namespace

template <typename T>
void LaunchWidestBackward(const AttentionBackwardArguments<T>& a, const WidestAttention& widest,
                          void* scratch, int processors, cudaStream_t stream,
                          const ScoreSoftcap& softcap) {
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  constexpr graph::DType kType =
      std::is_same_v<T, __half> ? graph::DType::kFloat16 : graph::DType::kBFloat16;
  auto* const rows = static_cast<float*>(scratch);
  auto* const next_units = reinterpret_cast<int*>(static_cast<char*>(scratch) + widest.row_bytes);
  LaunchAttentionRows<32>(a, rows, widest.tiles, next_units, WidestAttention::kCounters, stream);
  WidestArguments<T> w{};
  w.qkv = MapHeads({a.qkv, kType, a.batch, a.sequence, a.heads + 2 * a.kv_heads, a.head});
  w.dout = MapHeads({a.dout, kType, a.batch, a.sequence, a.heads, a.head});
  w.a = a;
  w.rows = rows;
  w.heads = narrow(a.heads), w.kv_heads = narrow(a.kv_heads);
  w.sequence = narrow(a.sequence), w.width = narrow(a.head);
  w.tiles = narrow(widest.tiles);
  w.causal = a.causal;
  const auto start = [&](auto kernel, int bytes, int parts, int64_t heads, int pass,
                         const char* name, const auto& cap) {
    w.parts = parts;
    w.units = parts * narrow(a.batch * heads);
    w.next_unit = next_units + pass;
    gpu::AllowSharedMemory(kernel, bytes);
    const auto blocks = static_cast<unsigned>(std::min(w.units, processors));
    kernel<<<blocks, kWidestThreads, bytes, stream>>>(w, cap);
    gpu::CheckLaunch(name);
  };
  const auto launch = [&]<int kPieces, bool kDropout, bool kRanges>(const auto& cap) {
    using Softcap = std::decay_t<decltype(cap)>;
    start(&WidestDqKernel<T, kPieces, kDropout, kRanges, Softcap>,
          WidestQueriesMemory<kPieces>::kBytes, (w.tiles + 1) / 2, a.heads, 0,
          "attention_backward: dq", cap);
    start(&WidestDkdvKernel<T, kPieces, kDropout, kRanges, Softcap>,
          WidestKeysMemory<kPieces>::kBytes, w.tiles, a.kv_heads, 1,
          "attention_backward: dk and dv", cap);
  };
  const auto launch_width = [&]<bool kDropout, bool kRanges>(const auto& cap) {
    a.head <= 192 ? launch.template operator()<3, kDropout, kRanges>(cap)
                  : launch.template operator()<4, kDropout, kRanges>(cap);
  };
  if (softcap.caps()) return DispatchCapped(a.dropout.rng != nullptr, softcap, launch_width);
  DispatchDropoutAndRanges(a.dropout.rng != nullptr, a.ranges.cuts(),
                           [&]<bool kDropout, bool kRanges>() {
                             launch_width.template operator()<kDropout, kRanges>(NoSoftcap());
                           });
}

template void LaunchWidestBackward(const AttentionBackwardArguments<__nv_bfloat16>&,
                                   const WidestAttention&, void*, int, cudaStream_t,
                                   const ScoreSoftcap&);
template void LaunchWidestBackward(const AttentionBackwardArguments<__half>&,
                                   const WidestAttention&, void*, int, cudaStream_t,
                                   const ScoreSoftcap&);

}  // namespace plimsoll::ops
