// Exact search for a placement within a capacity (offline dynamic storage allocation).
//
// Buffers are placed one by one at rising offsets, each on top of a placed one that is alive at the
// same time, or at zero; any placement can be slid down into such a form. Lifetimes are ranges of
// sections, the times at which a largest set of buffers is alive. A dead end is left as soon as the
// buffers that are left in some section cannot all end within the capacity.
//
// Of the same form is the search of Moffitt 2023, "MiniMalloc: A Lightweight Memory Allocator for
// Hardware-Accelerated Machine Learning", which also solves parts apart that share no time, takes
// turns among orders, and drops alternatives to a buffer with nothing above it. Bounds of
// sections come from scheduling one machine: Carlier and Pinson 1989, "An Algorithm for Solving the
// Job-Shop Problem" (edge finding).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/interval.h"

namespace plimsoll::memory {

enum class Verdict {
  kPlaced,
  kImpossible,  // no placement ends within the capacity
  kUndecided,   // the work was spent
};

struct ExactPlacement {
  Verdict verdict = Verdict::kUndecided;
  std::vector<int64_t> offsets;  // of kPlaced
  int64_t nodes = 0;             // buffers placed, on the way to dead ends too
  int64_t work = 0;
};

// More buffers than this are undecided at once: the search is as deep as there are buffers.
inline constexpr int64_t kMostExactBuffers = 2048;

// Places the intervals, whose sizes are used as they are, so that none ends above `capacity`.
// `work` bounds the search, in pairs of a buffer and a section of its lifetime; it is exceeded by
// what one node looks at, at most. The result is the same on any machine.
ExactPlacement PlaceWithin(std::span<const Interval> intervals, int64_t capacity, int64_t work);

}  // namespace plimsoll::memory
