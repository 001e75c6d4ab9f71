// The largest magnitude of what a kernel reads or stores, by the bits of float32: an integer
// maximum, which keeps infinity and NaN (ops/linear/code_scale.h), and doesn't depend on an order.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/cuda/elements.cuh"
#include "ops/cuda/reduce.cuh"

namespace plimsoll::ops {

// The larger one of `largest` and the magnitudes of a pack.
template <int N, typename T>
__device__ uint32_t WithMagnitudes(uint32_t largest, const Pack<T, N>& pack) {
  float values[N];
  ToFloats(pack, values);
#pragma unroll
  for (int i = 0; i < N; ++i) largest = max(largest, __float_as_uint(values[i]) & 0x7fffffff);
  return largest;
}

// All threads of a block of kThreads call it: *to becomes at least the largest of theirs. `shared`
// has kThreads / 32 words; it may be reused after the next __syncthreads().
template <int kThreads>
__device__ void AddLargest(uint32_t largest, uint32_t* shared, uint32_t* to) {
  static_assert(kThreads % kWarp == 0 && kThreads <= 1024);
  largest = WarpMaximum(largest);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = largest;
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  largest = WarpMaximum(threadIdx.x < kThreads / kWarp ? shared[threadIdx.x] : 0);
  // Most blocks find that another one has had more.
  if (threadIdx.x == 0 && largest > __ldcg(to)) atomicMax(to, largest);
}

}  // namespace plimsoll::ops
