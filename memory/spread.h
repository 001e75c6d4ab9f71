// Blocks that offload, evenly among blocks that don't.
//
// What one block makes may take longer to copy than its forward pass takes to compute. When
// neighbouring blocks offload it, their copies wait for one another, and the computation waits for
// them. When every second or third block does, there is time for each copy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::memory {

// The rules of the pass `offload`: so many blocks' copies may be under way in each direction, and a
// copy is given so many times its seconds, since copies may be slower than assumed, or nodes
// faster.
inline constexpr int64_t kCopiesUnderWay = 2;
inline constexpr double kCopySlack = 1.5;

// Whether `block` is one of `count` that lie evenly among `blocks`, the first one included.
bool InSpread(int block, int count, int blocks);

// The seconds of one micro-step's computation.
struct BlockTimes {
  std::vector<double> forward, backward;  // by block
  double head = 0;                        // between the forward and the backward pass

  double total() const;
};

// What a block offloads in one micro-step.
struct BlockCopy {
  double seconds = 0;  // to the host, and as long back
  int64_t bytes = 0;
};

// The copies of one micro-step beside its computation.
struct CopiesBeside {
  double wait = 0;             // seconds that the computation waits
  std::vector<int64_t> bytes;  // of other blocks, in flight while block i works; last entry: of
                               // all, while the head does
};

// An estimate by these rules, with all that a block copies as one copy.
CopiesBeside EstimateCopies(const BlockTimes& times, std::span<const BlockCopy> copies);

}  // namespace plimsoll::memory
