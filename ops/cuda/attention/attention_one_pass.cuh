// Definitions for the kernels of ops/cuda/attention/attention_one_pass_hopper.cu: their arguments,
// a unit's position in the problem, and a thread block's shared memory with its barriers. Only in
// code for sm_90a.
#pragma once

#include <cuda.h>

#include "ops/attention/attention_backward_ways.h"
#include "ops/cuda/attention/attention_backward.cuh"
#include "ops/cuda/attention/attention_parts.cuh"

namespace plimsoll::ops {

template <typename T>
struct OnePassArguments {
  CUtensorMap qkv, dout, dqkv;
  AttentionBackwardArguments<T> a;
  float* rows;    // [batch, heads, tiles, 2, 64]: lse·log₂e, then δ
  float* sums;    // [batch, kv_heads, shared_blocks, 2]: dk and dv of 64 keys, in register order
  int* counters;  // [1 + batch · kv_heads · shared_blocks · 2]
  int batch, heads, kv_heads, length, width;
  int chunk_tiles;  // tiles of a chunk
  int chunks, tiles, blocks, shared_blocks, units;
  bool causal;

  // The number of tokens of a row that are not padding; a.lengths must not be nullptr.
  __device__ int Length(int b) const { return max(0, min(length, a.lengths[b])); }
};

// A unit: the queries [first · 64, (first + tiles) · 64) of head h, and the key blocks that they
// see, beginning with `begin`. With kRanges, `at` is the address of FindRanges's results in shared
// memory: for each tile the first key of its first query, and of its last. With kPadded, a row ends
// with its last token: so does the unit, which has no blocks if all its queries are padding.
template <bool kRanges, bool kPadded>
struct OnePassUnit {
  static_assert(!kRanges || !kPadded);
  static constexpr int kTiles = kOnePassQueries / kOnePassStep;

  template <typename T>
  __device__ OnePassUnit(const OnePassArguments<T>& a, int unit, uint32_t ranges_at)
      : causal(a.causal), at(ranges_at), most(a.chunk_tiles) {
    const int groups = a.batch * a.kv_heads;
    kv = unit % groups;
    order = unit / groups;
    group = a.heads / a.kv_heads;
    b = kv / a.kv_heads;
    g = kv % a.kv_heads;
    h = g * group + order % group;
    chunks = a.chunks;
    const int chunk = chunks - 1 - order / group;
    first = chunk * most;
    if constexpr (kPadded) {
      const int length = a.Length(b);
      chunks = (length + most * 64 - 1) / (most * 64);
      order -= (a.chunks - chunks) * group;
      tiles = max(0, min(most, (length + 63) / 64 - first));
      blocks = tiles == 0 ? 0 : causal ? (first + tiles - 1) / 2 + 1 : (length + 127) / 128;
    } else {
      tiles = min(most, a.tiles - first);
      blocks = causal ? (first + tiles - 1) / 2 + 1 : a.blocks;
    }
  }
  // The length of the unit's row.
  template <typename T>
  __device__ int Length(const OnePassArguments<T>& a) const {
    return kPadded ? a.Length(b) : a.length;
  }
  template <typename T>
  __device__ void FindRanges(const OnePassArguments<T>& a) const {
    // All loads are started before the first result is used.
    int keys[kTiles];
    const auto store = [&](uint32_t to) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        StoreWord(to + tile * 4, static_cast<uint32_t>(keys[tile]));
      }
    };
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      keys[tile] = a.a.ranges.LastFirst(b, (first + tile) * kOnePassStep + 1, a.length);
    }
    store(at);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      keys[tile] = a.a.ranges.LastFirst(b, (first + tile + 1) * kOnePassStep, a.length);
    }
    store(at + kTiles * 4);
  }
  // FirstBlock: the first key block that queries of the tile see. Cut: the first key that all of
  // them see.
  __device__ int FirstBlock(int tile) const {
    return kRanges ? static_cast<int>(LoadWord(at + tile * 4)) / kBlock : 0;
  }
  __device__ int Cut(int tile) const {
    return kRanges ? static_cast<int>(LoadWord(at + (kTiles + tile) * 4)) : 0;
  }
  // The first tile of the unit whose queries see a key of the block.
  __device__ int FirstTile(int block) const { return causal ? max(0, block * 2 - first) : 0; }
  // The end of the unit's tiles whose queries see a key of the block. `before`: the end for an
  // earlier block, or 0.
  __device__ int EndTile(int block, int before) const {
    if constexpr (!kRanges) {
      return tiles;
    } else {
      while (before < tiles && FirstBlock(before) <= block) ++before;
      return before;
    }
  }
  // The number of units that add to the block: those of all heads of the group, from the last chunk
  // that sees it on.
  __device__ int Writers(int block) const {
    return (chunks - (causal ? block * 2 / most : 0)) * group;
  }
  // With ranges, called by complete warps: the number of chunks after the unit's own of which no
  // query sees the block.
  template <typename T>
  __device__ int BlindChunks(const OnePassArguments<T>& a, int block) const {
    const int next = first / most + 1;
    int end = next;
    for (bool all = true; all && end < chunks;) {
      const int chunk = end + static_cast<int>(threadIdx.x) % 32;
      const bool sees = chunk < chunks &&
                        a.a.ranges.First(b, chunk * most * kOnePassStep) < (block + 1) * kBlock;
      const int count = __popc(__ballot_sync(~0u, sees));
      end += count;
      all = count == 32;
    }
    return chunks - end;
  }

  static constexpr int kBlock = kOnePassKeys;

  bool causal;
  uint32_t at;
  int most;         // tiles of a chunk, unless its row ends
  int kv, b, g, h;  // kv = b · kv_heads + g
  int group;        // query heads of a key-value head
  int order;        // index among the units of a key-value head that have queries
  int chunks, first, tiles, blocks;
};

// Shared memory of a thread block, 1024-byte aligned:
//
//   sums     dq of each tile of the unit, float32, as the registers of one thread after another
//   slots    a ring: the keys of a block, then q and dout of one tile after another
//   values   the values of a block
//   scores   a ring, of one place: the gradients of the scores of 128 keys and 64 queries, 16 bits
//            (two places and three slots were 3 % slower)
//   rows     lse and δ of the tile in the slot of the same number
//   ranges   two places: for a unit and the next one
struct OnePassMemory {
  static constexpr int kSlots = 4, kStages = 1;
  static constexpr int kSlotBytes = 2 * kOperandTile;
  static constexpr int kTiles = OnePassUnit<false, false>::kTiles;
  static constexpr int kSumBytes = kOnePassStep * kOnePassHead * 4;  // bytes of a tile
  static constexpr int kRowBytes = kOnePassStep * 2 * 4;

  static constexpr int kSlotsAt = kTiles * kSumBytes;
  static constexpr int kValuesAt = kSlotsAt + kSlots * kSlotBytes;
  static constexpr int kScoresAt = kValuesAt + kSlotBytes;
  static constexpr int kRowsAt = kScoresAt + kStages * kSlotBytes;
  static constexpr int kBarriersAt = kRowsAt + kSlots * kRowBytes;
  static constexpr int kUnitAt = kBarriersAt + (2 * kSlots + 2 * kStages + 4) * 8;
  static constexpr int kRangesAt = kUnitAt + 16;
  static constexpr int kRangeBytes = 2 * kTiles * 4;
  static constexpr int kBytes = kRangesAt + 2 * kRangeBytes;
  static_assert(kBytes <= 227 * 1024);

  using Slot = RingPlace<kSlots>;
  using Stage = RingPlace<kStages>;
  using Single = RingPlace<1>;

  __device__ uint32_t Sums(int tile) const { return base + tile * kSumBytes; }
  __device__ uint32_t Tile(Slot n) const { return base + kSlotsAt + n.index * kSlotBytes; }
  __device__ uint32_t Rows(Slot n) const { return base + kRowsAt + n.index * kRowBytes; }
  __device__ uint32_t Values() const { return base + kValuesAt; }
  __device__ uint32_t Scores(Stage n) const { return base + kScoresAt + n.index * kSlotBytes; }

  // The ranges of the unit of this round. The unit after the next one reuses the place. It is
  // announced when all warps have taken the next unit, and so have finished this one.
  __device__ uint32_t Ranges(Single n) const { return base + kRangesAt + n.round * kRangeBytes; }

  __device__ uint32_t Full(Slot n) const { return Barrier(n.index); }
  __device__ uint32_t Empty(Slot n) const { return Barrier(kSlots + n.index); }
  __device__ uint32_t ScoresFull(Stage n) const { return Barrier(2 * kSlots + n.index); }
  __device__ uint32_t ScoresEmpty(Stage n) const { return Barrier(2 * kSlots + kStages + n.index); }
  __device__ uint32_t ValuesFull() const { return Barrier(2 * kSlots + 2 * kStages); }
  __device__ uint32_t ValuesEmpty() const { return Barrier(2 * kSlots + 2 * kStages + 1); }
  __device__ uint32_t UnitFull() const { return Barrier(2 * kSlots + 2 * kStages + 2); }
  __device__ uint32_t UnitEmpty() const { return Barrier(2 * kSlots + 2 * kStages + 3); }

  __device__ void AwaitFull(Slot n) const { AwaitBarrier(Full(n), n.round); }
  __device__ void AwaitEmpty(Slot n) const { AwaitBarrier(Empty(n), n.round ^ 1); }
  __device__ void AwaitScoresFull(Stage n) const { AwaitBarrier(ScoresFull(n), n.round); }
  __device__ void AwaitScoresEmpty(Stage n) const { AwaitBarrier(ScoresEmpty(n), n.round ^ 1); }
  __device__ void AwaitValuesFull(Single n) const { AwaitBarrier(ValuesFull(), n.round); }
  __device__ void AwaitValuesEmpty(Single n) const { AwaitBarrier(ValuesEmpty(), n.round ^ 1); }

  // Called by one thread. Each warp of the three computing warpgroups arrives separately.
  __device__ void InitBarriers() const {
    for (Slot n; n.round == 0; n.Step()) {
      InitBarrier(Full(n), 1);
      InitBarrier(Empty(n), 12 * kArrivalsOfWarp);
    }
    for (Stage n; n.round == 0; n.Step()) {
      InitBarrier(ScoresFull(n), 8 * kArrivalsOfWarp);
      InitBarrier(ScoresEmpty(n), 4 * kArrivalsOfWarp);
    }
    InitBarrier(ValuesFull(), 1);
    InitBarrier(ValuesEmpty(), 8 * kArrivalsOfWarp);
    InitBarrier(UnitFull(), 1);
    InitBarrier(UnitEmpty(), 12 * kArrivalsOfWarp);
    FenceArrivalInit();
  }

  uint32_t base;

 private:
  __device__ uint32_t Barrier(int i) const { return base + kBarriersAt + i * 8; }
};

// The loop of all warps but the copying one: processes the units that their thread block takes,
// until no units are left.
template <typename Unit, typename T, typename Work>
__device__ void ForEachUnit(const OnePassArguments<T>& a, const OnePassMemory& m,
                            const Work& work) {
  for (OnePassMemory::Single n;; n.Step()) {
    AwaitBarrier(m.UnitFull(), n.round);
    int unit;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(unit) : "r"(m.base + OnePassMemory::kUnitAt));
    if (unit >= a.units)
      return;  // this use of the value is needed: an arrival alone doesn't wait
               // for it
    ArriveByWarp(m.UnitEmpty());
    work(Unit(a, unit, m.Ranges(n)));
  }
}

// d = a·bᵀ for 64 × 64 × 64; the caller combines products into groups.
template <typename T>
__device__ void MultiplyHeldTile(float (&d)[32], const uint32_t (&a)[4][4], uint32_t b) {
  const uint32_t right = LowerHalf(b);
#pragma unroll
  for (int k = 0; k < 4; ++k) MultiplyHeld<T>(d, a[k], OperandAt(right, k * 32), k > 0);
}

// Writes zeros for the keys from `count` on, of 128 keys loaded by LoadTransposedMatrices, 16 at a
// time. A register of a thread has two adjacent keys.
__device__ inline void ClearHeldKeys(uint32_t (&keys)[8][4], int count) {
  const int column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int left = count - (k * 16 + i / 2 * 8 + column);
      if (left < 2) keys[k][i] &= left < 1 ? 0 : 0xFFFFu;
    }
  }
}

}  // namespace plimsoll::ops
