// The handles of NVIDIA's libraries that kernels call, and what kernels need to know about the GPU.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdint>

namespace plimsoll::gpu {

// For the current device. Handles are made at their first use, so that the GPU memory of each can
// be measured separately.
class Libraries {
 public:
  Libraries();
  ~Libraries();
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  cublasLtHandle_t cublas_lt();
  cudnnHandle_t cudnn(cudaStream_t stream);  // set to that stream

  // GPU memory that the handles made so far took.
  int64_t handle_bytes() const { return handle_bytes_; }

  const cudaDeviceProp& properties() const { return properties_; }
  int multiprocessors() const { return properties_.multiProcessorCount; }

 private:
  cudaDeviceProp properties_{};
  cublasLtHandle_t cublas_lt_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
  int64_t handle_bytes_ = 0;
};

}  // namespace plimsoll::gpu
