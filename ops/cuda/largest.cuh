// The largest magnitude of the values that a kernel reads or stores. It is an integer maximum of
// the bits of float32, which keeps infinity and NaN (ops/linear/code_scale.h), and doesn't depend
// on the order.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <initializer_list>

#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/reduce.cuh"

namespace plimsoll::ops {

// The maximum of `largest` and the magnitudes of a pack.
template <int N, typename T>
__device__ uint32_t WithMagnitudes(uint32_t largest, const Pack<T, N>& pack) {
  float values[N];
  ToFloats(pack, values);
#pragma unroll
  for (int i = 0; i < N; ++i) largest = max(largest, __float_as_uint(values[i]) & 0x7fffffff);
  return largest;
}

// All threads of a block of kThreads call it. Raises *to to the largest of their values. `shared`
// has kThreads / 32 words; it may be reused after the next __syncthreads().
template <int kThreads>
__device__ void AddLargest(uint32_t largest, uint32_t* shared, uint32_t* to) {
  static_assert(kThreads % kWarp == 0 && kThreads <= 1024);
  largest = WarpMaximum(largest);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = largest;
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  largest = WarpMaximum(threadIdx.x < kThreads / kWarp ? shared[threadIdx.x] : 0);
  // Most blocks find that another block has already stored a larger value.
  if (threadIdx.x == 0 && largest > __ldcg(to)) atomicMax(to, largest);
}

// Like the function above, for a warp, all of whose threads call it. Used by kernels of few warps,
// and if the number of a block's threads is not known at compile time.
__device__ inline void AddLargestOfWarp(uint32_t largest, uint32_t* to) {
  largest = WarpMaximum(largest);
  if (threadIdx.x % kWarp == 0 && largest > __ldcg(to)) atomicMax(to, largest);
}

// Raises `largest` to the magnitudes of a pack that the kernel stores. Does nothing without
// kLargest, or if `wanted`, the address for the maximum, is nullptr.
template <bool kLargest, int N, typename T>
__device__ void IncludeStored(const Pack<T, N>& stored, const uint32_t* wanted, uint32_t& largest) {
  if constexpr (kLargest) {
    if (wanted != nullptr) largest = WithMagnitudes(largest, stored);
  }
}

// Sets these to zero, before kernels raise them. nullptr if not requested.
inline void ClearLargest(std::initializer_list<uint32_t*> all, cudaStream_t stream) {
  for (uint32_t* largest : all) {
    if (largest == nullptr) continue;
    gpu::Check(cudaMemsetAsync(largest, 0, sizeof(*largest), stream), "cudaMemsetAsync");
  }
}

}  // namespace plimsoll::ops
