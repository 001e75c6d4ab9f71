// The interface of kernels on a GPU, and the table of CUDA kernels (ops/KIND/NAME_cuda.cu).
// Compiled with --config=cuda only. A kernel enqueues work on the given stream: it never allocates,
// never waits for the GPU, and never reads a tensor's bytes on the host, so that whole programs can
// be captured into CUDA graphs. Its scratch memory is a workspace, which the planner places
// (ops/cuda_workspace.h gives the size, without a GPU).
//
// Two runs on the same device give the same bits: no atomic additions of floats.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <string>
#include <string_view>

#include "gpu/libraries.h"
#include "graph/op.h"
#include "ops/kernel.h"

namespace plimsoll::ops {

// Tensors are 256-byte aligned and on the device; those of Place::kHost are in pinned memory.
struct CudaContext : KernelCall {
  cudaStream_t stream;
  gpu::Libraries& libraries;

  graph::DType dtype() const { return inputs[0].type.dtype; }
};

struct CudaKernel {
  std::string op;
  void (*run)(const CudaContext&);
  // Called once for each node, outside of any capture, before its first run: chooses algorithms,
  // builds execution plans, loads modules. It may run work on the stream and wait for it, and may
  // write to outputs and workspace, but never to inputs. nullptr: nothing to prepare.
  void (*prepare)(const CudaContext&) = nullptr;
  // Runs several consecutive nodes of this op that do not depend on one another, in fewer launches.
  // Gives the same bits as run() on each. nullptr: not supported.
  void (*run_group)(std::span<const CudaContext>) = nullptr;
};

// The CUDA kernel of an op; nullptr if it has none.
const CudaKernel* FindCudaKernel(std::string_view op);

// For use at namespace scope in ops/KIND/NAME_cuda.cu:   const CudaKernelRegistration
// kKernel({"gelu", &Gelu});
struct CudaKernelRegistration {
  explicit CudaKernelRegistration(CudaKernel kernel);
};

}  // namespace plimsoll::ops
