// Finds offsets for buffers with known sizes and lifetimes (offline dynamic storage allocation),
// such that buffers alive at the same time don't overlap and the highest end is low.
//
// The problem is NP-hard; greedy placement in a good order is near-optimal on training steps. So
// several orders are tried with two rules for choosing a gap, and the best placement is kept. If it
// is not good enough, the order is improved step by step: buffers that end too high move to the
// front. If the extent is still above its lower bound, exact searches follow, along the skyline
// (memory/skyline_placement.h) and in order of offsets (memory/exact_placement.h): first for a
// placement at the lower bound, then by bisection between the bound and the best extent. Dead ends
// along the skyline are completed greedily, and kept if they are better. The searches may prove
// that no lower extent exists. All searches are bounded by counts, never by the clock, so that
// results are the same on any machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/interval.h"

namespace plimsoll::memory {

struct PlacementOptions {
  int64_t alignment = 64;  // alignment of offsets, in bytes; sizes are rounded up to it
  // The search stops when the extent is at most the larger of `target` and the max live
  // bytes.
  int64_t target = 0;
  // The limit of the search after the first placement, in pairs of buffers compared.
  int64_t work = 20'000'000;
  // Exact searches follow if the extent exceeds its lower bound by more than this fraction.
  double tolerated = 0;
  // The limit of the exact searches, in pairs of a buffer and a section of its lifetime
  // (PlaceWithin). With many buffers, the exact searches may exceed this limit by a quarter and one
  // greedy placement. 0 means no exact search.
  int64_t exact_work = 40'000'000;
};

struct Placement {
  std::vector<int64_t> offsets;
  int64_t extent = 0;    // the highest end of a buffer, with sizes rounded up
  int64_t max_live = 0;  // a lower bound of any extent
  bool proved = false;   // whether it is proved that no placement has a lower extent
  int64_t nodes = 0;     // number of nodes that the exact searches visited
};

// Throws InternalError if a size is negative, a death precedes its birth, or the alignment is not
// positive.
Placement Place(std::span<const Interval> intervals, const PlacementOptions& options = {});

}  // namespace plimsoll::memory
