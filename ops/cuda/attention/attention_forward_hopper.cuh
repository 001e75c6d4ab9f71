// Definitions shared by the kernels of ops/cuda/attention/attention_forward_hopper.cu: their
// arguments, a unit's position in the problem, and a thread block's shared memory with the barriers
// between its parts. Only in code for sm_90a.
#pragma once

#include <cuda.h>

#include "ops/cuda/attention/attention_forward.cuh"
#include "ops/cuda/attention/attention_parts.cuh"

namespace plimsoll::ops {

template <typename T>
struct HopperForwardArguments {
  CUtensorMap qkv;
  T* out;
  float* lse;              // nullptr: not wanted
  uint32_t* largest;       // magnitude of out; nullptr: not wanted
  const int32_t* lengths;  // nullptr: no padding
  AttentionDropout dropout;
  AttentionRanges ranges;
  float scale;  // of scores in units of log 2
  int batch, heads, kv_heads, head, sequence;
  int tiles, units;  // of a head, and of all
  bool causal;
};

// Queries from `first` on of head h, 64 for each warpgroup, and the steps of 64 keys that they see:
// from `begin` on.
template <int kWarpgroups, bool kRanges>
struct HopperForwardUnit {
  template <typename T>
  __device__ HopperForwardUnit(const HopperForwardArguments<T>& a, int unit) {
    const int rows = a.batch * a.heads;
    const bool equal = !a.causal && a.lengths == nullptr;
    const int row = equal ? unit / a.tiles : unit % rows;
    b = row / a.heads;
    h = row % a.heads;
    g = h / (a.heads / a.kv_heads);
    first = (a.tiles - 1 - (equal ? unit % a.tiles : unit / rows)) * 64 * kWarpgroups;
    length = a.lengths == nullptr ? a.sequence : min(a.sequence, a.lengths[b]);
    const int end = min(length, first + 64 * kWarpgroups);
    steps = ((a.causal ? end : length) + 63) / 64;
    begin = kRanges && exists() ? a.ranges.First(b, first) / 64 : 0;
  }
  // Whether any of its queries is no padding.
  __device__ bool exists() const { return first < length; }

  int b, h, g;
  int first, length, begin, steps;
};

// Shared memory of a thread block, 1024-byte aligned:
//
//   queries  64 for each computing warpgroup
//   slots    a ring: keys and values of 64 tokens in the order in which they are used
template <int kWidthPieces>
struct HopperForwardMemory {
  static constexpr int kPieces = kWidthPieces;  // of 64 columns
  static constexpr int kWarpgroups = kPieces == 1 ? 3 : 2;
  static constexpr int kThreads = (kWarpgroups + 1) * kWarpgroup;
  static constexpr int kRegisters = kPieces == 1 ? 160 : 240;
  static constexpr int kRegistersOfCopies = kPieces == 1 ? 32 : 24;
  static constexpr bool kHeld = kPieces <= 2;  // q is in registers
  static constexpr int kSlots = kHeld ? 8 : kPieces == 3 ? 7 : 5;
  static constexpr int kTile = kPieces * kOperandTile;

  static constexpr int kSlotsAt = kWarpgroups * kTile;
  static constexpr int kBarriersAt = kSlotsAt + kSlots * kTile;
  static constexpr int kBytes = kBarriersAt + (2 * kSlots + 2) * 8;

  using Slot = RingPlace<kSlots>;
  using Single = RingPlace<1>;

  __device__ uint32_t Queries(int part) const { return base + part * kTile; }
  __device__ uint32_t Tile(Slot n) const { return base + kSlotsAt + n.index * kTile; }

  __device__ uint32_t Full(Slot n) const { return Barrier(n.index); }
  __device__ uint32_t Empty(Slot n) const { return Barrier(kSlots + n.index); }
  __device__ uint32_t QueriesFull() const { return Barrier(2 * kSlots); }
  __device__ uint32_t QueriesEmpty() const { return Barrier(2 * kSlots + 1); }

  // Called by one thread. Each warp of the computing warpgroups arrives separately.
  __device__ void InitBarriers() const {
    constexpr int kWarps = 4 * kWarpgroups * kArrivalsOfWarp;
    for (Slot n; n.round == 0; n.Step()) {
      InitBarrier(Full(n), 1);
      InitBarrier(Empty(n), kWarps);
    }
    InitBarrier(QueriesFull(), 1);
    InitBarrier(QueriesEmpty(), kWarps);
    FenceArrivalInit();
  }

  uint32_t base;

 private:
  __device__ uint32_t Barrier(int i) const { return base + kBarriersAt + i * 8; }
};

}  // namespace plimsoll::ops
