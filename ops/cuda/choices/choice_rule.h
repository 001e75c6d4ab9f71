// Which of several measured ways to solve a problem is chosen, such that a choice that is measured
// again gives the same bits.
//
// Ways that add in the same order give the same bits, and among them time decides. A way with other
// bits than the first one's has to be a fifth faster than all of those, which is far more than what
// two measurements of the same ways differ by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::ops {

struct TimedWay {
  uint64_t bits;  // of its results; the same for ways that give the same bits
  double microseconds;
};

// The indices of the ways (algorithms) that may be chosen, in the order of `ways`. All were timed
// roughly; at least one exists, and the library prefers the first.
std::vector<size_t> WaysToTimeAgain(std::span<const TimedWay> ways);

// The index of the one that is chosen. `preferred`: the bits of the way that the library prefers.
size_t ChosenWay(std::span<const TimedWay> ways, uint64_t preferred);

}  // namespace plimsoll::ops
