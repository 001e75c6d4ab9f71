// The streams on which a device's programs are enqueued.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "graph/program.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/state_reads.h"

namespace plimsoll::runtime {

// The stream of a node, numbered like NodeTime::stream. From kCollectives on, each axis has one
// stream.
enum CudaStreamIndex { kCompute = 0, kToHost = 1, kToDevice = 2, kCollectives = 3 };

struct CudaStreams {
  // Collectives have few blocks and high priority. Without it, each would wait until a kernel
  // running at the same time leaves multiprocessors free.
  struct Collectives : CudaStream {
    Collectives() : CudaStream(Priority::kHighest) {}
  };
  static constexpr size_t kMostAxes = 4;

  CudaStream compute, to_host, to_device;
  // One stream for each axis of the mesh: sums that the next layer waits for must not queue after
  // sums of gradients, which only the update waits for. Each axis has its own communicator, which
  // shares nothing with the others, and all ranks enqueue the calls of all axes in one order.
  std::array<Collectives, kMostAxes> collectives;

  cudaStream_t of(CudaStreamIndex which) const {
    switch (which) {
      case kCompute:
        return compute.get();
      case kToHost:
        return to_host.get();
      case kToDevice:
        return to_device.get();
      default:
        return collectives[which - kCollectives].get();
    }
  }
};
inline constexpr int kCudaStreams = kCollectives + static_cast<int>(CudaStreams::kMostAxes);

// The streams and events of the concurrent program (DeviceMemory::BoundProgram::concurrent), and
// the marks that it has passed.
struct CudaConcurrentProgram {
  explicit CudaConcurrentProgram(const graph::Program& program)
      : reads(program), passed(reads.marks().size()) {}

  CudaStreams streams;
  CudaEvent may_start, ended;
  StateReads reads;
  std::vector<CudaEvent> passed;  // one event for each mark
};

}  // namespace plimsoll::runtime
