// Exact search for a placement within a capacity (offline dynamic storage allocation).
//
// Buffers are placed one by one at rising offsets, each at offset zero or on top of a placed buffer
// that is alive at the same time. Any placement can be compacted into this form. Lifetimes are
// ranges of sections, the times at which a maximal set of buffers is alive. The search backtracks
// as soon as the unplaced buffers of some section cannot all end within the capacity.
//
// The search of Moffitt 2023, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated
// Machine Learning", has the same form. It also solves groups of buffers separately if their
// lifetimes do not overlap, alternates between orders, and drops alternatives to a buffer with no
// buffer above it. The bounds of sections come from single-machine scheduling: Carlier and Pinson
// 1989, "An Algorithm for Solving the Job-Shop Problem" (edge finding).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/interval.h"

namespace plimsoll::memory {

enum class Verdict {
  kPlaced,
  kImpossible,  // no placement ends within the capacity
  kUndecided,   // the limit of work was reached
};

struct ExactPlacement {
  Verdict verdict = Verdict::kUndecided;
  std::vector<int64_t> offsets;  // by interval: its offset, if the verdict is kPlaced
  int64_t nodes = 0;  // number of nodes of the search tree: of buffers placed, including those
                      // taken back after dead ends
  int64_t work = 0;
};

// With more buffers than this the verdict is kUndecided at once, because the search recurses once
// for each buffer.
inline constexpr int64_t kMostExactBuffers = 2048;

// Places the intervals so that none ends above `capacity`. Sizes are not rounded. `work` limits how
// many pairs of a buffer and a section of its lifetime the search visits. At most the last step of
// the search exceeds this limit. The result is the same on any machine.
ExactPlacement PlaceWithin(std::span<const Interval> intervals, int64_t capacity, int64_t work);

}  // namespace plimsoll::memory
