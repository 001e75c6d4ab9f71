// Lifetimes as ranges of sections.
//
// A section is a time at which a maximal set of buffers is alive: the last time before a death that
// follows a birth. Any buffers that are alive at the same time are all alive in some section. No
// section's buffers are all alive in another section.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/interval.h"

namespace plimsoll::memory {

struct SectionRange {
  int32_t first = 0, last = 0;  // `last` is included
};

// The times of the sections, rising.
std::vector<int32_t> SectionTimes(std::span<const Interval> intervals);

// The sections in which an interval is alive. `times`: SectionTimes of a set of intervals that
// contains this interval.
SectionRange RangeOf(const Interval& interval, std::span<const int32_t> times);

}  // namespace plimsoll::memory
