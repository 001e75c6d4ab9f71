// Search for a placement within a capacity (offline dynamic storage allocation) along a skyline:
// the highest ends of placed buffers at each section, a time at which a largest set of buffers is
// alive.
//
// Where the skyline is lower than on both sides, a buffer that starts there lies within the dent,
// or nothing does and the dent is filled up to the lower side. So a node fills the dent with the
// fewest ways to do it, from its left or its right end. What stays empty is taken from the bytes
// that the sections can spare, and a dent that nothing fills is a dead end. Few bytes to spare make
// a node narrow: this is the search for placements close to the most bytes alive. Nodes are far
// cheaper than those of memory/exact_placement.h, and blinder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/exact_placement.h"
#include "memory/interval.h"

namespace plimsoll::memory {

inline constexpr int64_t kUnplaced = -1;

// As PlaceWithin of memory/exact_placement.h. `work` is in pairs of that search, by time. The seed
// is of the order in which ways that seem alike are tried.
ExactPlacement PlaceAlongSkyline(std::span<const Interval> intervals, int64_t capacity,
                                 int64_t work, uint32_t seed = 0);

}  // namespace plimsoll::memory
