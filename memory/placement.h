// Finds offsets for buffers with known sizes and lifetimes (offline dynamic storage allocation),
// such that buffers alive at the same time don't overlap and the highest end is low.
//
// The problem is NP-hard; greedy placement in a good order is near-optimal on training steps. So
// several orders are tried with two rules for choosing a gap, and the best is kept. If that is not
// good enough, the order is improved step by step: buffers that end too high move to the front.
// Where the extent is still above its lower bound, exact searches take over, along the skyline
// (memory/skyline_placement.h) and in order of offsets (memory/exact_placement.h): first for a
// placement at the lower bound, then for any lower extent, halving what is between. Dead ends along
// the skyline are completed by the greedy rule and kept if they are lower. The searches may prove
// that there is no lower extent. All searches are bounded by counts, never by the clock, so the
// result is the same on any machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/interval.h"

namespace plimsoll::memory {

struct PlacementOptions {
  int64_t alignment = 64;  // of offsets, in bytes; sizes are rounded up to it
  // An extent that is small enough to stop the search. It always stops at the max live bytes.
  int64_t target = 0;
  // Bound of the search after the first placement, in pairs of buffers looked at.
  int64_t work = 20'000'000;
  // The exact search takes over where the extent is above its lower bound by more than this part.
  double tolerated = 0;
  // Bound of the exact searches, in pairs of a buffer and a section of its lifetime (PlaceWithin);
  // it is exceeded by a quarter, for many buffers, and one greedy placement, at most. 0: none.
  int64_t exact_work = 40'000'000;
};

struct Placement {
  std::vector<int64_t> offsets;
  int64_t extent = 0;    // highest end of a buffer, size rounded up
  int64_t max_live = 0;  // lower bound of any extent
  bool proved = false;   // no placement has a lower extent
  int64_t nodes = 0;     // of the exact searches
};

// Throws InternalError on a negative size, a death before birth, or an alignment that isn't
// positive.
Placement Place(std::span<const Interval> intervals, const PlacementOptions& options = {});

}  // namespace plimsoll::memory
