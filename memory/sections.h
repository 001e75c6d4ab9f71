// Lifetimes as ranges of sections.
//
// A section is a time: the last time before a death that follows a birth. Any buffers that are
// alive together are alive together in some section. No section's buffers are all alive in another
// one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/interval.h"

namespace plimsoll::memory {

struct SectionRange {
  int32_t first = 0, last = 0;  // inclusive
};

// The times of the sections, rising.
std::vector<int32_t> SectionTimes(std::span<const Interval> intervals);

// The sections of an interval. `times`: SectionTimes of intervals that include it.
SectionRange RangeOf(const Interval& interval, std::span<const int32_t> times);

}  // namespace plimsoll::memory
