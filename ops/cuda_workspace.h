// Scratch memory of CUDA kernels, as a function of the call alone: plans for a GPU are made without
// a GPU, and also by builds without CUDA.
#pragma once

#include <cstdint>
#include <string>

#include "graph/op.h"

namespace plimsoll::ops {

// Bytes that the op's CUDA kernel may use as its workspace; 0 for most.
int64_t CudaWorkspaceBytes(const graph::OpCall& call);

// For use at namespace scope in ops/KIND/NAME.cc:   const CudaWorkspaceRegistration
// kWorkspace("sum", &Bytes);
struct CudaWorkspaceRegistration {
  CudaWorkspaceRegistration(std::string op, int64_t (*bytes)(const graph::OpCall&));
};

}  // namespace plimsoll::ops
