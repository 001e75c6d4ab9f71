// Scratch memory of CUDA kernels, as a function of the call and the kind of GPU: plans for a GPU
// are made without a GPU, and also by builds without CUDA.
#pragma once

#include <cstdint>
#include <string>

#include "base/compute_capability.h"
#include "graph/op.h"

namespace plimsoll::ops {

// Bytes that the op's CUDA kernel may use as its workspace on such a GPU; 0 for most.
int64_t CudaWorkspaceBytes(const graph::OpCall& call, ComputeCapability gpu);

// For use at namespace scope in ops/KIND/NAME.cc:   const CudaWorkspaceRegistration
// kWorkspace("sum", &Bytes);
struct CudaWorkspaceRegistration {
  CudaWorkspaceRegistration(std::string op, int64_t (*bytes)(const graph::OpCall&));
  CudaWorkspaceRegistration(std::string op,
                            int64_t (*bytes)(const graph::OpCall&, ComputeCapability));
};

}  // namespace plimsoll::ops
