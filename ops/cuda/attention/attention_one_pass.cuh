// Definitions shared by the kernels of ops/cuda/attention/attention_one_pass_hopper.cu: their
// arguments, a unit's position in the problem, and a thread block's shared memory with the barriers
// between its parts. Only in code for sm_90a.
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
  float* rows;  // [batch, heads, tiles, 2, 64]: lse·log₂e, then δ
  float* sums;  // [batch, kv_heads, shared_blocks, 2]: dk and dv of 64 keys, as registers have them
  int* counters;  // [1 + batch · kv_heads · shared_blocks · 2]
  int batch, heads, kv_heads, length, width;
  int chunks, tiles, blocks, shared_blocks, units;
  bool causal;
};

// Queries [first · 64, (first + tiles) · 64) of head h, and the key blocks that they see.
struct OnePassUnit {
  static constexpr int kTiles = kOnePassQueries / kOnePassStep;

  template <typename T>
  __device__ OnePassUnit(const OnePassArguments<T>& a, int unit) : causal(a.causal) {
    const int groups = a.batch * a.kv_heads;
    kv = unit % groups;
    order = unit / groups;
    group = a.heads / a.kv_heads;
    b = kv / a.kv_heads;
    g = kv % a.kv_heads;
    h = g * group + order % group;
    chunks = a.chunks;
    const int chunk = chunks - 1 - order / group;
    first = chunk * kTiles;
    tiles = min(kTiles, a.tiles - first);
    blocks = causal ? (first + tiles - 1) / 2 + 1 : a.blocks;
  }
  // The first tile of the unit whose queries see a key of the block.
  __device__ int FirstTile(int block) const { return causal ? max(0, block * 2 - first) : 0; }
  // Units that add to the block: those of all heads of the group, from the last chunk on.
  __device__ int Writers(int block) const {
    return (chunks - (causal ? block * 2 / kTiles : 0)) * group;
  }

  bool causal;
  int kv, b, g, h;  // kv = b · kv_heads + g
  int group;        // heads of a key-value head
  int order;        // among the units of a key-value head
  int chunks, first, tiles, blocks;
};

// Shared memory of a thread block, 1024-byte aligned:
//
//   sums     dq of each tile of the unit, float32, as the registers of one thread after another
//   slots    a ring: the keys of a block, then q and dout of one tile after another
//   values   of a block
//   scores   a ring, if of one: the gradients of the scores of 128 keys and 64 queries, 16 bits
//            (two places and three slots were 3 % slower)
//   rows     lse and δ of the tile in the slot of the same number
struct OnePassMemory {
  static constexpr int kSlots = 4, kStages = 1;
  static constexpr int kSlotBytes = 2 * kOperandTile;
  static constexpr int kSumBytes = kOnePassStep * kOnePassHead * 4;  // of a tile
  static constexpr int kRowBytes = kOnePassStep * 2 * 4;

  static constexpr int kSlotsAt = OnePassUnit::kTiles * kSumBytes;
  static constexpr int kValuesAt = kSlotsAt + kSlots * kSlotBytes;
  static constexpr int kScoresAt = kValuesAt + kSlotBytes;
  static constexpr int kRowsAt = kScoresAt + kStages * kSlotBytes;
  static constexpr int kBarriersAt = kRowsAt + kSlots * kRowBytes;
  static constexpr int kUnitAt = kBarriersAt + (2 * kSlots + 2 * kStages + 4) * 8;
  static constexpr int kBytes = kUnitAt + 16;

  using Slot = RingPlace<kSlots>;
  using Stage = RingPlace<kStages>;
  using Single = RingPlace<1>;

  __device__ uint32_t Sums(int tile) const { return base + tile * kSumBytes; }
  __device__ uint32_t Tile(Slot n) const { return base + kSlotsAt + n.index * kSlotBytes; }
  __device__ uint32_t Rows(Slot n) const { return base + kRowsAt + n.index * kRowBytes; }
  __device__ uint32_t Values() const { return base + kValuesAt; }
  __device__ uint32_t Scores(Stage n) const { return base + kScoresAt + n.index * kSlotBytes; }

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

// What each warp but the copying one does: processes the units that its thread block takes, until
// there are no more.
template <typename T, typename Work>
__device__ void ForEachUnit(const OnePassArguments<T>& a, const OnePassMemory& m,
                            const Work& work) {
  for (OnePassMemory::Single n;; n.Step()) {
    AwaitBarrier(m.UnitFull(), n.round);
    int unit;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(unit) : "r"(m.base + OnePassMemory::kUnitAt));
    if (unit >= a.units) return;  // the use of the value matters: an arrival doesn't wait for it
    ArriveByWarp(m.UnitEmpty());
    work(OnePassUnit(a, unit));
  }
}

// d = a·bᵀ for 64 × 64 × 64; the caller combines products into groups.
template <typename T>
__device__ void MultiplyHeldTile(float (&d)[32], const uint32_t (&a)[4][4], uint32_t b) {
  const uint32_t right = LowerHalf(b);
#pragma unroll
  for (int k = 0; k < 4; ++k) MultiplyHeld<T>(d, a[k], OperandAt(right, k * 32), k > 0);
}

}  // namespace plimsoll::ops
