// Memory of this process as the system counts it, libraries included. Nothing here allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace plimsoll::runtime {

struct ProcessMemory {
  int64_t resident_bytes = 0;       // now
  int64_t peak_resident_bytes = 0;  // since the process started
  // Resident bytes without a file behind them, such as the heap; 0 when the system doesn't tell.
  int64_t anonymous_bytes = 0;
};

// Throws InternalError when the system doesn't tell.
ProcessMemory MeasureProcessMemory();

// Gives back what the heap holds of freed memory, before a large part of memory is taken in another
// way.
void ReturnFreeMemory();

// Memory that can still be had without swapping.
struct AvailableMemoryBytes {
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  int64_t machine = 0;
  // What is left of the limit of the process's control group, the tightest of it and those around
  // it: a container's, or a batch job's.
  int64_t group = kNoLimit;
  uint64_t group_id = 0;  // the same for all processes of the machine that share this limit

  int64_t least() const { return std::min(machine, group); }
};

// `root`: a folder in place of "/", for tests. Throws UserError when the system doesn't tell.
AvailableMemoryBytes MeasureAvailableMemory(const char* root = "");

// Bytes that this machine, or the container or job in which the process runs, can still provide.
inline int64_t AvailableMemory() { return MeasureAvailableMemory().least(); }

}  // namespace plimsoll::runtime
