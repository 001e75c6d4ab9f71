#include "runtime/caching_allocator/cuda_segments.h"

#include "gpu/check.h"

namespace plimsoll::runtime {

uintptr_t CudaSegments::Reserve(int64_t bytes) {
  void* address = nullptr;
  const auto size = static_cast<size_t>(bytes);
  const cudaError_t status = place_ == graph::Place::kDevice
                                 ? cudaMalloc(&address, size)
                                 : cudaHostAlloc(&address, size, cudaHostAllocDefault);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // CUDA keeps it for the next call that asks
    return 0;
  }
  gpu::Check(status, "a segment of memory");
  return reinterpret_cast<uintptr_t>(address);
}

void CudaSegments::Return(uintptr_t address, int64_t) {
  void* const segment = reinterpret_cast<void*>(address);
  if (place_ == graph::Place::kDevice) {
    gpu::Check(cudaFree(segment), "cudaFree");
  } else {
    gpu::Check(cudaFreeHost(segment), "cudaFreeHost");
  }
}

void CudaSegments::Fill(uintptr_t address, int64_t bytes, unsigned char value) {
  if (bytes == 0) return;
  gpu::Check(
      cudaMemsetAsync(reinterpret_cast<void*>(address), value, static_cast<size_t>(bytes), stream_),
      "cudaMemsetAsync");
}

}  // namespace plimsoll::runtime
