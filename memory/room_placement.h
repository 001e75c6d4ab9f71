// Places buffers in room that others leave: ranges of bytes in which some buffers lie at fixed
// offsets while they live.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/interval.h"

namespace plimsoll::memory {

struct ByteRange {
  int64_t begin = 0, end = 0;
};

struct FixedBuffer {
  Interval interval;
  int64_t offset = 0;
};

// The offset of each buffer, or -1 of one that is left out. What is left out is placed elsewhere,
// in no less than the most of its bytes alive at once; so buffers alive at that time, the largest
// first, are taken into the room until none of them fits. Offsets and sizes are rounded up to the
// alignment.
std::vector<int64_t> PlaceInRoom(std::span<const Interval> buffers, std::span<const ByteRange> room,
                                 std::vector<FixedBuffer> fixed, int64_t alignment);

}  // namespace plimsoll::memory
