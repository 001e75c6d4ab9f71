// Memory of this process as the system counts it, libraries included. Nothing here allocates.
#pragma once

#include <cstdint>

namespace plimsoll::runtime {

struct ProcessMemory {
  int64_t resident_bytes = 0;       // now
  int64_t peak_resident_bytes = 0;  // since the process started
  // Resident bytes without a file behind them, such as the heap; 0 when the system doesn't tell.
  int64_t anonymous_bytes = 0;
};

// Throws InternalError when the system doesn't tell.
ProcessMemory MeasureProcessMemory();

// Bytes that this machine, or the container in which the process runs, can still provide without
// swapping.
int64_t AvailableMemory();

}  // namespace plimsoll::runtime
