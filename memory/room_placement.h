// Places buffers in room that other tensors leave: ranges of bytes in which some buffers are at
// fixed offsets during their lifetimes.
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

// By buffer: its offset, or -1 if it is left out. Buffers that are left out are placed elsewhere,
// and take at least the most of their bytes alive at once. So buffers that are alive at that time
// are taken into the room, the largest first, until none of them fits. Offsets and sizes are
// rounded up to the alignment.
std::vector<int64_t> PlaceInRoom(std::span<const Interval> buffers, std::span<const ByteRange> room,
                                 std::vector<FixedBuffer> fixed, int64_t alignment);

}  // namespace plimsoll::memory
