// How a kernel meets its data on a GPU, and the table of CUDA kernels (ops/NAME_cuda.cu). Compiled
// with --config=cuda only. A kernel enqueues work on the stream it is given: it never allocates,
// never waits for the GPU, and never reads a tensor's bytes on the host, so that whole programs can
// be captured into CUDA graphs. Its scratch memory is a workspace, which the planner places
// (ops/cuda_workspace.h says how large, without a GPU).
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

struct CudaContext {
  const graph::OpDef& op;
  std::span<const TensorRef> inputs;  // addresses on the device; of Place::kHost: pinned memory
  std::span<const TensorRef> outputs;
  const graph::Attributes& attributes;
  void* workspace;  // 256-byte aligned, as all tensors are
  int64_t workspace_bytes;
  cudaStream_t stream;
  gpu::Libraries& libraries;

  bool has_input(size_t i) const { return i < inputs.size() && inputs[i].data != nullptr; }
  bool has_output(size_t i) const { return i < outputs.size() && outputs[i].data != nullptr; }

  // nullptr when absent.
  template <typename T>
  const T* in(size_t i) const {
    return has_input(i) ? static_cast<const T*>(inputs[i].data) : nullptr;
  }
  template <typename T>
  T* out(size_t i) const {
    return has_output(i) ? static_cast<T*>(outputs[i].data) : nullptr;
  }
  const graph::Shape& in_shape(size_t i) const { return inputs[i].type.shape; }
  const graph::Shape& out_shape(size_t i) const { return outputs[i].type.shape; }
  graph::DType dtype() const { return inputs[0].type.dtype; }
};

struct CudaKernel {
  std::string op;
  void (*run)(const CudaContext&);
  // Called once for each node, outside of any capture, before its first run: chooses algorithms,
  // builds execution plans, loads modules. May run work on the stream and wait for it; may write to
  // outputs and workspace, never to inputs. nullptr: nothing to prepare.
  void (*prepare)(const CudaContext&) = nullptr;
  // Runs several nodes of this op that follow each other and do not depend on one another, in fewer
  // launches. The same bits as run() on each. nullptr: none.
  void (*run_group)(std::span<const CudaContext>) = nullptr;
};

// nullptr when the op has no CUDA kernel.
const CudaKernel* FindCudaKernel(std::string_view op);

// At namespace scope in ops/NAME_cuda.cu:   const CudaKernelRegistration kKernel({"gelu", &Gelu});
struct CudaKernelRegistration {
  explicit CudaKernelRegistration(CudaKernel kernel);
};

}  // namespace plimsoll::ops
