// Search for a placement within a capacity (offline dynamic storage allocation) along the skyline:
// by section, the highest end of a placed buffer. A section is a time at which a maximal set of
// buffers is alive.
//
// A dent is a run of sections whose skyline is lower than on both sides. Either a buffer within
// these sections is placed at the bottom of the dent, or the dent is left empty up to its lower
// side. Each step of the search takes the dent with the fewest such ways, and fills it from its
// left or its right end. Empty bytes are subtracted from the bytes that a section can spare; a dent
// that cannot be filled within them is a dead end. The fewer bytes to spare, the fewer ways: this
// search finds placements close to the max live bytes. Its steps are much cheaper than those of
// memory/exact_placement.h, but have weaker bounds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/exact_placement.h"
#include "memory/interval.h"

namespace plimsoll::memory {

inline constexpr int64_t kUnplaced = -1;

// Places the intervals like PlaceWithin (memory/exact_placement.h). `work` limits the search, in
// units that take as long as a pair of PlaceWithin's search. `seed` orders choices of equal rating.
ExactPlacement PlaceAlongSkyline(std::span<const Interval> intervals, int64_t capacity,
                                 int64_t work, uint32_t seed = 0);

}  // namespace plimsoll::memory
