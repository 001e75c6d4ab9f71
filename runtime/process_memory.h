// Memory of this process as the system counts it, including libraries. Nothing here allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace plimsoll::runtime {

struct ProcessMemory {
  int64_t resident_bytes = 0;       // memory resident now
  int64_t peak_resident_bytes = 0;  // maximum since the process started
  // Resident bytes that belong to no file, such as the heap; 0 if the system doesn't report them.
  int64_t anonymous_bytes = 0;
};

// Throws InternalError if the system doesn't report the process's memory.
ProcessMemory MeasureProcessMemory();

// Returns freed memory of the heap to the system. Call it before a large part of memory is
// allocated in another way.
void ReturnFreeMemory();

// Memory that is still available without swapping.
struct AvailableMemoryBytes {
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  int64_t machine = 0;
  // The bytes left below the limit of the process's control group. The tightest limit of the group
  // and its ancestors counts: a container's, or a batch job's.
  int64_t group = kNoLimit;
  uint64_t group_id = 0;  // the same for all processes of the machine that share this limit

  int64_t least() const { return std::min(machine, group); }
};

// `root`: a folder in place of "/", for tests. Throws a UserError if the system doesn't report its
// memory.
AvailableMemoryBytes MeasureAvailableMemory(const char* root = "");

// Bytes that this machine, or the container or job in which the process runs, can still provide.
inline int64_t AvailableMemory() { return MeasureAvailableMemory().least(); }

}  // namespace plimsoll::runtime
