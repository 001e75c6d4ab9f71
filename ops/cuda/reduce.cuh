// Sums and maxima over the threads of a warp or block, in an order that depends only on the shape:
// the same bits in every run.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace plimsoll::ops {

inline constexpr int kWarp = 32;

__device__ inline float WarpSum(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

__device__ inline float WarpMax(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
  }
  return x;
}

__device__ inline int32_t WarpTotal(int32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(~0u, x);
#else
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
#endif
}

__device__ inline uint32_t WarpMaximum(uint32_t x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    x = max(x, __shfl_xor_sync(~0u, x, offset));
  }
  return x;
}

// All threads of a block of kThreads call it, and all get the sum. `shared` has kThreads / 32
// floats; it may be reused after the next __syncthreads().
template <int kThreads>
__device__ float BlockSum(float x, float* shared) {
  static_assert(kThreads % kWarp == 0 && kThreads <= 1024);
  x = WarpSum(x);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = threadIdx.x % kWarp < kThreads / kWarp ? shared[threadIdx.x % kWarp] : 0.0f;
  return WarpSum(x);
}

}  // namespace plimsoll::ops
