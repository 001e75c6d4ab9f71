// Times single calls of ops' CUDA kernels on scratch memory. Part of every build; without
// --config=cuda there is no GPU to time on.
#pragma once

#include <cstdint>
#include <memory>

#include "graph/program.h"

namespace plimsoll::runtime {

class CudaCallTimer {
 public:
  // Uses the GPU that MakeCudaDevice would take, and throws the same errors.
  CudaCallTimer();
  ~CudaCallTimer();

  // Seconds that the node's kernel takes in a recorded program: the call is recorded many times in
  // a row and replayed, on arguments that are in no cache unless they alone fill it. Algorithms are
  // chosen first, as before a run. Ids lie within the tables, numbers are random.
  //
  // Negative when it can't be timed: no kernel, more scratch than `most_bytes`, or a kernel that
  // refuses such numbers.
  double Time(const graph::Program& program, const graph::Node& node, int64_t most_bytes);

  // Whether one launch handles calls of this op on many tensors. Then only the time of a large call
  // shows the cost per byte.
  static bool Grouped(const graph::Node& node);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::runtime
