// The handles of NVIDIA's libraries for kernels, and the properties of the GPU that kernels need.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdint>

#include "base/compute_capability.h"

namespace plimsoll::gpu {

// The handles for the current device. A handle is made at its first use, so that the GPU memory of
// each library can be measured separately.
class Libraries {
 public:
  Libraries();
  ~Libraries();
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  cublasLtHandle_t cublas_lt();
  cudnnHandle_t cudnn(cudaStream_t stream);  // the handle, set to this stream

  // GPU memory that the handles made so far took.
  int64_t handle_bytes() const { return handle_bytes_; }

  const cudaDeviceProp& properties() const { return properties_; }
  // Kernels choose by this, not by the properties (ActAs).
  ComputeCapability capability() const { return capability_; }
  int multiprocessors() const { return properties_.multiProcessorCount; }

 private:
  cudaDeviceProp properties_{};
  ComputeCapability capability_;
  cublasLtHandle_t cublas_lt_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
  int64_t handle_bytes_ = 0;
};

}  // namespace plimsoll::gpu
