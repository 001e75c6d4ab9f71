// Times single calls of ops' CUDA kernels on scratch memory. Included in every build; without
// --config=cuda there is no GPU to time on.
#pragma once

#include <cstdint>
#include <memory>

#include "graph/program.h"

namespace plimsoll::runtime {

class CudaCallTimer {
 public:
  // Uses the GPU that MakeCudaDevice would use, and throws the same errors.
  CudaCallTimer();
  ~CudaCallTimer();

  // Returns the seconds that the node's kernel takes in a recorded program. The call is recorded
  // many times in a row and replayed. The arguments of a call are in no cache when the call begins,
  // unless the arguments of one call fill the cache. Algorithms are chosen first, as before a run.
  // Ids are valid rows of their tables; floating-point arguments are random.
  //
  // Returns a negative number when the node can't be timed: the node has no kernel, the kernel
  // needs more scratch than `most_bytes`, or the kernel refuses these arguments.
  double Time(const graph::Program& program, const graph::Node& node, int64_t most_bytes);

  // Whether one launch handles calls of this op on many tensors. Then only the time of a large call
  // shows the cost per byte.
  static bool Grouped(const graph::Node& node);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::runtime
