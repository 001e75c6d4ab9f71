// Lifetimes as ranges of sections.
//
// Sections are the times just before a death that follows a birth: buffers that live together do so
// at one of them, and no section's buffers are all alive at another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/interval.h"

namespace plimsoll::memory {

struct SectionRange {
  int32_t first = 0, last = 0;  // included
};

// Rising.
std::vector<int32_t> SectionTimes(std::span<const Interval> intervals);

// Of an interval that is among those of the times.
SectionRange RangeOf(const Interval& interval, std::span<const int32_t> times);

}  // namespace plimsoll::memory
