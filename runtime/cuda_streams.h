// The streams that a device's programs are enqueued on.
#pragma once

#include <vector>

#include "graph/program.h"
#include "runtime/cuda_handles.h"
#include "runtime/state_reads.h"

namespace plimsoll::runtime {

struct CudaStreams {
  CudaStream compute, to_host, to_device;
  // Collectives have few blocks and high priority; otherwise each would wait until a kernel beside
  // it leaves room.
  CudaStream collectives{CudaStream::Priority::kHighest};
};

// What a program runs on beside others (DeviceMemory::BoundProgram), and how far it has come.
struct CudaBeside {
  explicit CudaBeside(const graph::Program& program)
      : reads(program), passed(reads.marks().size()) {}

  CudaStreams streams;
  CudaEvent may_start, ended;
  StateReads reads;
  std::vector<CudaEvent> passed;  // by mark
};

}  // namespace plimsoll::runtime
