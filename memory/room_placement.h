// Places buffers in the room that other tensors leave free. Room is a list of ranges of bytes; some
// buffers have fixed offsets in it during their lifetimes.
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

// By buffer: its offset in the room, or -1 if it is left out. Buffers that are left out are placed
// elsewhere, and there need at least the most of their bytes that are alive at once. So the buffers
// alive at the time of that maximum are taken into the room, the largest first, until none of them
// fits. Offsets and sizes are rounded up to the alignment.
std::vector<int64_t> PlaceInRoom(std::span<const Interval> buffers, std::span<const ByteRange> room,
                                 std::vector<FixedBuffer> fixed, int64_t alignment);

}  // namespace plimsoll::memory
