// Definitions for the kernels of ops/cuda/attention/attention_forward_hopper.cu: their arguments, a
// unit's position in the problem, a thread block's shared memory with its barriers, and the turns
// of its warpgroups. Only in code for sm_90a.
#pragma once

#include <cuda.h>

#include "ops/cuda/attention/attention_forward.cuh"
#include "ops/cuda/attention/attention_parts.cuh"

namespace plimsoll::ops {

template <typename T>
struct HopperForwardArguments {
  CUtensorMap qkv;
  T* out;
  float* lse;         // nullptr if not requested
  uint32_t* largest;  // largest magnitude of out; nullptr if not requested
  // number of tokens of each row that are not padding; nullptr without padding
  const int32_t* lengths;
  AttentionDropout dropout;
  AttentionRanges ranges;
  float scale;  // factor that gives scores in units of log 2
  int batch, heads, kv_heads, head, sequence;
  int tiles, units;  // tiles of a head; units of all heads
  bool causal;
};

// The unit of this thread block in a round, if it is below a.units. Rounds alternate between
// forward and backward order of the blocks. So each block has about the same work, although units
// get shorter.
__device__ inline int HopperForwardUnitAt(int round) {
  const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
}

// A unit: the queries of head h beginning with `first`, 64 for each warpgroup, and the steps of
// kKeys keys that they see, beginning with `begin`.
template <typename Memory, bool kRanges>
struct HopperForwardUnit {
  template <typename T>
  __device__ HopperForwardUnit(const HopperForwardArguments<T>& a, int unit) {
    constexpr int kQueries = 64 * Memory::kWarpgroups;
    const int rows = a.batch * a.heads;
    const bool equal = !a.causal && a.lengths == nullptr;
    const int row = equal ? unit / a.tiles : unit % rows;
    b = row / a.heads;
    h = row % a.heads;
    g = h / (a.heads / a.kv_heads);
    first = (a.tiles - 1 - (equal ? unit % a.tiles : unit / rows)) * kQueries;
    length = a.lengths == nullptr ? a.sequence : min(a.sequence, a.lengths[b]);
    const int end = a.causal ? min(length, first + kQueries) : length;
    steps = (end + Memory::kKeys - 1) / Memory::kKeys;
    begin = kRanges && exists() ? a.ranges.First(b, first) / Memory::kKeys : 0;
  }
  // Whether any of the unit's queries is not padding.
  __device__ bool exists() const { return first < length; }

  int b, h, g;
  int first, length, begin, steps;
};

// Shared memory of a thread block, 1024-byte aligned:
//
//   queries  64 for each computing warpgroup; for heads up to 128 wide, those of two units
//   slots    a ring: keys and values of a step in the order in which they are used
//
// Tiles of 64 × 64 are stored one after another: first the rows of the first 64 columns, then those
// of the next columns.
template <int kWidthPieces, bool kDropout>
struct HopperForwardMemory {
  static constexpr int kPieces = kWidthPieces;  // number of 64-column pieces
  static constexpr int kWarpgroups = kPieces == 1 ? 3 : 2;
  static constexpr int kThreads = (kWarpgroups + 1) * kWarpgroup;
  static constexpr int kRegisters = kPieces == 1 ? 160 : 240;
  static constexpr int kRegistersOfCopies = kPieces == 1 ? 32 : 24;
  // The number of keys in a step is limited by registers. Narrow heads have 160 registers, and
  // draws need some of them.
  static constexpr int kBlocks = kPieces > 2 || (kPieces == 1 && kDropout) ? 1 : 2;
  static constexpr int kKeys = 64 * kBlocks;
  static constexpr int kUnits = kPieces <= 2 ? 2 : 1;  // number of units whose queries fit
  static constexpr bool kTurns = kPieces <= 2;         // warpgroups start their products in turn
  static constexpr int kSlots = kPieces == 1 ? 10 : kPieces == 3 ? 7 : 5;
  static constexpr int kPiece = kBlocks * kOperandTile;
  static constexpr int kTile = kPieces * kPiece;
  static constexpr int kQueryTile = kPieces * kOperandTile;

  static constexpr int kSlotsAt = kUnits * kWarpgroups * kQueryTile;
  static constexpr int kBarriersAt = kSlotsAt + kSlots * kTile;
  static constexpr int kBytes = kBarriersAt + 2 * (kSlots + kUnits) * 8;

  using Slot = RingPlace<kSlots>;

  // `unit`: the number of units that this thread block has done before.
  __device__ uint32_t Queries(unsigned unit, int part) const {
    return base + (unit % kUnits * kWarpgroups + part) * kQueryTile;
  }
  __device__ uint32_t Tile(Slot n) const { return base + kSlotsAt + n.index * kTile; }

  __device__ uint32_t Full(Slot n) const { return Barrier(n.index); }
  __device__ uint32_t Empty(Slot n) const { return Barrier(kSlots + n.index); }
  __device__ uint32_t QueriesFull(unsigned unit) const {
    return Barrier(2 * kSlots + unit % kUnits);
  }
  __device__ uint32_t QueriesEmpty(unsigned unit) const { return QueriesFull(unit) + kUnits * 8; }
  __device__ static uint32_t Round(unsigned unit) { return unit / kUnits % 2; }

  // Called by one thread. Each warp of the computing warpgroups arrives separately.
  __device__ void InitBarriers() const {
    constexpr int kWarps = 4 * kWarpgroups * kArrivalsOfWarp;
    for (Slot n; n.round == 0; n.Step()) {
      InitBarrier(Full(n), 1);
      InitBarrier(Empty(n), kWarps);
    }
    for (unsigned unit = 0; unit < kUnits; ++unit) {
      InitBarrier(QueriesFull(unit), 1);
      InitBarrier(QueriesEmpty(unit), kWarps);
    }
    FenceArrivalInit();
  }

  uint32_t base;

 private:
  __device__ uint32_t Barrier(int i) const { return base + kBarriersAt + i * 8; }
};

// The warpgroups start products in turns, in a cycle. So the tensor cores finish one warpgroup's
// scores before they begin those of the next, and its softmax runs during the other warpgroups'
// products. A warpgroup has a turn for every step of a unit except the last keys', even for steps
// whose keys its queries don't see.
template <typename Memory>
struct ProductTurns {
  __device__ explicit ProductTurns(int of_part) : part(of_part) {
    if (part == Memory::kWarpgroups - 1) Pass();
  }
  __device__ void Await() const {
    if constexpr (!Memory::kTurns) return;
    asm volatile("bar.sync %0, 256;" ::"r"(kFirstName + part) : "memory");
  }
  __device__ void Pass() const {
    if constexpr (!Memory::kTurns) return;
    const int next = part + 1 == Memory::kWarpgroups ? 0 : part + 1;
    asm volatile("bar.arrive %0, 256;" ::"r"(kFirstName + next) : "memory");
  }

  static constexpr int kFirstName = 4;  // name of the first barrier; ClearPadding uses 1 to 3
  int part;
};

}  // namespace plimsoll::ops
