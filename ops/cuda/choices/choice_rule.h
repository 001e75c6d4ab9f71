// The rule that chooses one of several measured ways to solve a problem, so that a repeated
// measurement leads to the same bits.
//
// Ways that add in the same order give the same bits, and among them time decides. A way with other
// bits than the preferred one has to be a fifth faster than all ways with the preferred bits. This
// is far more than the difference between two measurements of the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::ops {

struct TimedWay {
  uint64_t bits;  // hash of its results; equal for ways that give the same bits
  double microseconds;
};

// The indices of the ways (algorithms) that may be chosen, in the order of `ways`. All were timed
// roughly; at least one exists, and the library prefers the first.
std::vector<size_t> WaysToTimeAgain(std::span<const TimedWay> ways);

// The index of the chosen way. `preferred`: the bits of the way that the library prefers.
size_t ChosenWay(std::span<const TimedWay> ways, uint64_t preferred);

}  // namespace plimsoll::ops
