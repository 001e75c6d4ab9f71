// Search for a placement within a capacity (offline dynamic storage allocation) along the skyline.
// The skyline is, for each section, the highest end of a placed buffer. A section is a time at
// which a maximal set of buffers is alive.
//
// A dent is a range of sections whose skyline is lower than that of the sections before and after
// it. It is filled by a buffer that lives within these sections and is placed at the bottom of the
// dent, or it is left empty up to the lower of the two neighbours. Each step of the search takes
// the dent that has the fewest ways to be filled, and fills it from its left or its right end.
// Empty bytes are subtracted from the bytes that a section can spare; a dent that cannot be filled
// within these bytes is a dead end. With fewer bytes to spare there are fewer ways, so this search
// finds placements close to the max live bytes. Its steps are much cheaper than those of
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
// units of work; a unit takes as long as PlaceWithin takes for a pair of a buffer and a section.
// `seed` orders choices of equal rating.
ExactPlacement PlaceAlongSkyline(std::span<const Interval> intervals, int64_t capacity,
                                 int64_t work, uint32_t seed = 0);

}  // namespace plimsoll::memory
