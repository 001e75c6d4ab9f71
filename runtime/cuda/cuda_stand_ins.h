// Arguments of a node's call in scratch memory, to prepare or time its kernel by itself: each lies
// apart, but what the program writes over an input lies where that does (call_arguments.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/program.h"
#include "ops/kernel.h"

namespace plimsoll::runtime {

struct CudaStandIns {
  std::vector<ops::TensorRef> inputs, outputs;
  void* workspace = nullptr;

  // Bytes of scratch for a call with so large a workspace.
  static int64_t Bytes(const graph::Program& program, const graph::Node& node,
                       int64_t workspace_bytes);
  CudaStandIns(const graph::Program& program, const graph::Node& node, int64_t workspace_bytes,
               std::byte* scratch);
};

}  // namespace plimsoll::runtime
