// Memory of this process as the system counts it, libraries included. Nothing here allocates.
#pragma once

#include <cstdint>

namespace plimsoll::runtime {

struct ProcessMemory {
  int64_t resident_bytes = 0;       // now
  int64_t peak_resident_bytes = 0;  // since the process started
  // Of those resident, what no file stands behind, such as the heap; 0 when the system doesn't
  // tell.
  int64_t anonymous_bytes = 0;
};

// InternalError when the system doesn't tell.
ProcessMemory MeasureProcessMemory();

// Bytes that this machine, or the container that the process runs in, can still give without
// swapping.
int64_t AvailableMemory();

}  // namespace plimsoll::runtime
