// Definitions for the kernels of ops/cuda/attention/attention_widest_hopper.cu: their arguments, a
// unit's position in the problem, and a thread block's shared memory with its barriers. Only in
// code for sm_90a.
#pragma once

#include <cuda.h>

#include "ops/cuda/attention/attention_backward.cuh"
#include "ops/cuda/attention/attention_parts.cuh"

namespace plimsoll::ops {

template <typename T>
struct WidestArguments {
  CUtensorMap qkv, dout;
  AttentionBackwardArguments<T> a;
  const float* rows;  // [batch, heads, tiles, 2, 64]: lse·log₂e, then δ
  int* next_unit;     // the next unit after the first one of each thread block
  int heads, kv_heads, sequence, width;
  int tiles;  // number of tiles of 64 tokens in a sequence
  int parts;  // units of a head, for dq or for dk and dv
  int units;  // units of all heads
  bool causal;

  __device__ int Length(int b) const {
    return a.lengths == nullptr ? sequence : min(sequence, a.lengths[b]);
  }
  // lse and δ of a tile; `row`: batch row · heads + head.
  __device__ const float* Rows(int row, int tile) const {
    return rows + (int64_t{row} * tiles + tile) * 128;
  }
};

// A unit: the queries [first, first + 128) of head h, 64 for each warpgroup, and the tiles of keys
// that they see, [begin, steps). The longest units of a head come first.
struct WidestQueries {
  template <typename T>
  __device__ WidestQueries(const WidestArguments<T>& w, int unit) {
    row = unit / w.parts;
    b = row / w.heads;
    h = row % w.heads;
    g = h / (w.heads / w.kv_heads);
    first = (w.parts - 1 - unit % w.parts) * 128;
    length = w.Length(b);
    steps = ((w.causal ? min(length, first + 128) : length) + 63) / 64;
  }
  // Whether any token of the unit is not padding.
  __device__ bool exists() const { return first < length; }
  // With ranges: finds the limit of the tiles of a unit that exists; SetLimit passes it to other
  // threads.
  template <typename T>
  __device__ int FindLimit(const WidestArguments<T>& w) const {
    return w.a.ranges.First(b, first) / 64;
  }
  template <typename T>
  __device__ void SetLimit(const WidestArguments<T>&, int limit) {
    begin = limit;
  }

  int row;  // batch row · heads + head
  int b, h, g;
  int first, length, begin = 0, steps;
};

// A unit: the keys [first, first + 64) of key-value head g, and the tiles of queries of its group
// that see them.
struct WidestKeys {
  template <typename T>
  __device__ WidestKeys(const WidestArguments<T>& w, int unit) {
    const int kv = unit / w.parts, group = w.heads / w.kv_heads;
    b = kv / w.kv_heads;
    g = kv % w.kv_heads;
    h = g * group;
    first = unit % w.parts * 64;
    length = w.Length(b);
    first_tile = w.causal ? first / 64 : 0;
    end_tile = (length + 63) / 64;
    steps = group * (end_tile - first_tile);
  }
  __device__ bool exists() const { return first < length; }
  template <typename T>
  __device__ int FindLimit(const WidestArguments<T>& w) const {
    return w.a.ranges.EndTile(b, 64, first + 64, first_tile, end_tile);
  }
  template <typename T>
  __device__ void SetLimit(const WidestArguments<T>& w, int limit) {
    end_tile = limit;
    steps = w.heads / w.kv_heads * (end_tile - first_tile);
  }

  int b, g, h;  // h: the first head of the group
  int first, length;
  int first_tile, end_tile, steps;
};

// The steps of a unit of keys: the tiles of one head after another.
struct WidestStep {
  __device__ explicit WidestStep(const WidestKeys& u) : h(u.h), tile(u.first_tile) {}
  __device__ void Next(const WidestKeys& u) {
    if (++tile == u.end_tile) {
      tile = u.first_tile;
      ++h;
    }
  }

  int h, tile;
};

// Shared memory of a thread block, 1024-byte aligned: tiles that stay during a unit, a ring of
// tiles, weights that one warpgroup passes to the other, lse and δ of the queries in each slot, the
// unit's number and limit, and the barriers.
template <int kWidthPieces, int kStaying, int kRing, int kPassed, int kRows>
struct WidestMemory {
  static constexpr int kPieces = kWidthPieces;  // number of 64-column pieces
  static constexpr int kTile = kPieces * kOperandTile;
  static constexpr int kSlots = kRing;
  static constexpr int kRowBytes = 2 * 64 * 4;

  static constexpr int kSlotsAt = kStaying * kTile;
  static constexpr int kWeightsAt = kSlotsAt + kSlots * kTile;
  static constexpr int kRowsAt = kWeightsAt + kPassed * kOperandTile;
  static constexpr int kUnitAt = kRowsAt + kRows * kRowBytes;
  static constexpr int kBarriersAt = kUnitAt + 8;
  static constexpr int kBytes = kBarriersAt + (2 + 2 * kSlots + 2 * kPassed) * 8;
  static_assert(kBytes <= 227 * 1024);

  using Slot = RingPlace<kSlots>;
  using Unit = RingPlace<1>;

  __device__ uint32_t Staying(int i) const { return base + i * kTile; }
  __device__ uint32_t Tile(Slot n) const { return base + kSlotsAt + n.index * kTile; }
  __device__ uint32_t UnitAt() const { return base + kUnitAt; }

  // Barriers: the unit's number and the tiles that stay have arrived (UnitFull), or are no longer
  // needed (UnitEmpty).
  __device__ uint32_t UnitFull() const { return Barrier(0); }
  __device__ uint32_t UnitEmpty() const { return Barrier(1); }
  __device__ uint32_t Full(Slot n) const { return Barrier(2 + n.index); }
  __device__ uint32_t Empty(Slot n) const { return Barrier(2 + kSlots + n.index); }

  // Called by one thread. Each warp of the computing warpgroups arrives separately.
  __device__ void InitBarriers() const {
    constexpr int kWarps = 8 * kArrivalsOfWarp;
    InitBarrier(UnitFull(), 1);
    InitBarrier(UnitEmpty(), kWarps);
    for (Slot n; n.round == 0; n.Step()) {
      InitBarrier(Full(n), 1);
      InitBarrier(Empty(n), kWarps);
    }
    for (int i = 0; i < 2 * kPassed; ++i) InitBarrier(Barrier(kPassedAt + i), kWarps / 2);
    FenceArrivalInit();
  }

  uint32_t base;

 protected:
  static constexpr int kPassedAt = 2 + 2 * kSlots;

  __device__ uint32_t Barrier(int i) const { return base + kBarriersAt + i * 8; }
};

// The memory for dq. q and dout of 64 queries for each warpgroup stay. Values and keys of the same
// 64 tokens follow each other in the ring, values first, because they are free earlier.
template <int kPieces>
struct WidestQueriesMemory : WidestMemory<kPieces, 4, kPieces == 3 ? 5 : 3, 0, 0> {
  __device__ uint32_t Queries(int part) const { return this->Staying(part); }
  __device__ uint32_t Dout(int part) const { return this->Staying(2 + part); }
};

// The memory for dk and dv. k and v of 64 tokens stay. q and dout of the same 64 queries follow
// each other in the ring; weights have two places.
template <int kPieces>
struct WidestKeysMemory : WidestMemory<kPieces, 2, kPieces == 3 ? 6 : 4, 2, kPieces == 3 ? 6 : 4> {
  using Slot = typename WidestKeysMemory::Slot;
  using Pair = RingPlace<2>;

  __device__ uint32_t Keys() const { return this->Staying(0); }
  __device__ uint32_t Values() const { return this->Staying(1); }
  __device__ uint32_t Weights(Pair n) const {
    return this->base + this->kWeightsAt + n.index * kOperandTile;
  }
  // lse and δ of the queries in this slot.
  __device__ uint32_t Rows(Slot n) const {
    return this->base + this->kRowsAt + n.index * this->kRowBytes;
  }
  __device__ uint32_t WeightsFull(Pair n) const { return this->Barrier(this->kPassedAt + n.index); }
  __device__ uint32_t WeightsEmpty(Pair n) const {
    return this->Barrier(this->kPassedAt + 2 + n.index);
  }
};

// The loop of the copying thread. It takes units, lets `stay` start the copies of the tiles that
// stay, and passes the unit's number to the computing warps if the unit has work. Then `follow`
// starts the copies of its other tiles. A number of w.units or more means that no units are left.
template <typename Unit, bool kRanges, typename T, typename Memory, typename Stay, typename Follow>
__device__ void TakeWidestUnits(const WidestArguments<T>& w, const Memory& m, int staying,
                                const Stay& stay, const Follow& follow) {
  typename Memory::Unit n;
  int unit = static_cast<int>(blockIdx.x);
#pragma unroll 1
  while (true) {
    const bool ends = unit >= w.units;
    Unit u(w, ends ? 0 : unit);
    const int next = ends ? 0 : static_cast<int>(gridDim.x) + atomicAdd(w.next_unit, 1);
    if (ends || u.exists()) {
      int limit = 0;
      if (kRanges && !ends) u.SetLimit(w, limit = u.FindLimit(w));
      AwaitBarrier(m.UnitEmpty(), n.round ^ 1);
      StoreWord(m.UnitAt(), static_cast<uint32_t>(unit));
      if constexpr (kRanges) StoreWord(m.UnitAt() + 4, static_cast<uint32_t>(limit));
      if (ends) return Arrive(m.UnitFull());
      ExpectBytes(m.UnitFull(), staying * Memory::kTile);
      stay(u);
      n.Step();
      follow(u);
    }
    unit = next;
  }
}

// The loop of the computing warps: works on these units.
template <typename Unit, bool kRanges, typename T, typename Memory, typename Work>
__device__ void ForEachWidestUnit(const WidestArguments<T>& w, const Memory& m, const Work& work) {
#pragma unroll 1
  for (typename Memory::Unit n;; n.Step()) {
    AwaitBarrier(m.UnitFull(), n.round);
    const int unit = static_cast<int>(LoadWord(m.UnitAt()));
    if (unit >= w.units) return;
    Unit u(w, unit);
    if constexpr (kRanges) u.SetLimit(w, static_cast<int>(LoadWord(m.UnitAt() + 4)));
    work(u, unit);
  }
}

}  // namespace plimsoll::ops
