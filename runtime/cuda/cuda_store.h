// Device::Store for GPUs. Kernels write the elements to their memory, on the GPU or in pinned host
// memory, and read the host's values from pinned memory.
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
  std::mutex mutex_;  // held while work is enqueued
  std::optional<CudaBuffer> staging_;
  std::optional<CudaUpload> upload_;  // for values outside staging memory; made at their first use
};

}  // namespace plimsoll::runtime
