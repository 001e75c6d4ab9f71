// Statistics of an allocator: the memory that it holds now, and its peaks.
#pragma once

#include <cstdint>

namespace plimsoll::runtime {

struct AllocatorStats {
  // Bytes that callers requested; bytes of the blocks handed out to them; bytes of all segments.
  int64_t requested = 0, allocated = 0, reserved = 0;
  int64_t peak_requested = 0, peak_allocated = 0, peak_reserved = 0;
  int64_t segments = 0;           // number of segments held now
  int64_t segments_reserved = 0;  // number of segments reserved so far
  int64_t segments_returned = 0;  // number of segments returned so far
  int64_t retries = 0;            // requests for which the cache had to be emptied first

  // Fragmentation: reserved bytes / bytes in use − 1, each at its peak.
  double fragmentation() const {
    if (peak_allocated == 0) return 0;
    return static_cast<double>(peak_reserved) / static_cast<double>(peak_allocated) - 1;
  }
  bool operator==(const AllocatorStats&) const = default;
};

}  // namespace plimsoll::runtime
