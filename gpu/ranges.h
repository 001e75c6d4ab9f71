// Names on the timelines of Nsight Systems and Nsight Compute (NVTX): programs, phases and nodes
// instead of kernels' mangled names. A range costs some nanoseconds while no such tool is attached.
#pragma once

#include <nvtx3/nvToolsExt.h>

namespace plimsoll::gpu {

// A range on the calling thread, from construction to destruction. Ranges nest.
class Range {
 public:
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace plimsoll::gpu
