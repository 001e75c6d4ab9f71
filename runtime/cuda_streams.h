// The streams that a device's programs are enqueued on.
#pragma once

#include "runtime/cuda_handles.h"

namespace plimsoll::runtime {

struct CudaStreams {
  CudaStream compute, to_host, to_device;
  // Collectives have few blocks and high priority; otherwise each would wait until a kernel beside
  // it leaves room.
  CudaStream collectives{CudaStream::Priority::kHighest};
};

// The streams for programs that run beside others (DeviceMemory::BoundProgram).
struct CudaBeside {
  CudaStreams streams;
  CudaEvent may_start, ended;
};

}  // namespace plimsoll::runtime
