#include "bench/cuda_segments.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <utility>

#include "gpu/check.h"

namespace plimsoll::bench {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

uintptr_t CudaSegments::Reserve(int64_t bytes) {
  void* address = nullptr;
  const auto start = Clock::now();
  const cudaError_t status = cudaMalloc(&address, static_cast<size_t>(bytes));
  calls_.malloc_seconds += SecondsSince(start);
  ++calls_.mallocs;
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // CUDA keeps it for the next call that asks
    return 0;
  }
  gpu::Check(status, "cudaMalloc");
  return reinterpret_cast<uintptr_t>(address);
}

void CudaSegments::Return(uintptr_t address, int64_t) {
  const auto start = Clock::now();
  gpu::Check(cudaFree(reinterpret_cast<void*>(address)), "cudaFree");
  calls_.free_seconds += SecondsSince(start);
  ++calls_.frees;
}

CudaCalls CudaSegments::TakeCalls() { return std::exchange(calls_, {}); }

}  // namespace plimsoll::bench
