// Device::Store of GPUs. Kernels write the elements where they live, on the GPU or in pinned memory
// of the host, and read values that the host has from pinned memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "base/initial_draws.h"
#include "base/stripe.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/cuda/cuda_upload.h"
#include "runtime/stored_parameter.h"

namespace plimsoll::runtime {

class CudaStore {
 public:
  // The stream must outlive the object.
  explicit CudaStore(cudaStream_t stream) : stream_(stream) {}
  ~CudaStore();

  void Store(const StoredParameter& to, const Stripe& from, const InitialDraws& draws);
  void Store(const StoredParameter& to, const Stripe& from, const TypedElements& values);
  void Store(std::byte* to, std::span<const std::byte> bytes);
  void Await();
  std::span<std::byte> Staging(int64_t bytes);

 private:
  bool IsStaged(const std::byte* data) const;
  CudaUpload& upload();

  cudaStream_t stream_;
  std::mutex mutex_;  // held while something is enqueued
  std::optional<CudaBuffer> staging_;
  std::optional<CudaUpload> upload_;  // of values from elsewhere, once there are some
};

}  // namespace plimsoll::runtime
