// Buffers for tests of placements, and whether a placement is sound.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "memory/interval.h"
#include "memory/skyline_placement.h"

namespace plimsoll::memory {

// Buffers at kUnplaced are passed over.
inline void ExpectApart(const std::vector<Interval>& intervals, const std::vector<int64_t>& offsets,
                        int64_t capacity) {
  ASSERT_EQ(offsets.size(), intervals.size());
  for (size_t a = 0; a < intervals.size(); ++a) {
    if (offsets[a] == kUnplaced) continue;
    ASSERT_GE(offsets[a], 0);
    ASSERT_LE(offsets[a] + intervals[a].size, capacity);
    for (size_t b = 0; b < a; ++b) {
      ASSERT_FALSE(offsets[b] != kUnplaced && intervals[a].Meets(intervals[b]) &&
                   offsets[a] < offsets[b] + intervals[b].size &&
                   offsets[b] < offsets[a] + intervals[a].size)
          << "buffers " << a << " and " << b;
    }
  }
}

// Sizes are from `least` on, `sizes` of them.
inline std::vector<Interval> RandomBuffers(uint32_t seed, size_t count, int32_t times,
                                           int32_t longest, int64_t sizes, int64_t least = 1) {
  std::mt19937 random(seed);
  std::vector<Interval> intervals(count);
  for (Interval& i : intervals) {
    i.size = least + static_cast<int64_t>(random() % sizes);
    i.birth = static_cast<int32_t>(random() % times);
    i.death = i.birth + static_cast<int32_t>(random() % longest);
  }
  return intervals;
}

}  // namespace plimsoll::memory
