// The largest magnitude of the values that attention's kernels store (ops/cuda/largest.cuh). It is
// found before they are scaled and rounded: a positive factor and rounding keep the order of
// magnitudes, so the largest result comes from the largest number. Nothing waits for the atomic
// maximum.
#pragma once

#include "ops/cuda/largest.cuh"

namespace plimsoll::ops {

// The bits of |x|.
__device__ inline uint32_t MagnitudeBits(float x) { return __float_as_uint(x) & 0x7fffffff; }

// All lanes of a warp call it, each with the bits of a magnitude. Raises *to to the largest of
// them, scaled and rounded to T.
template <typename T>
__device__ void AddStoredMagnitude(uint32_t magnitude, float scale, uint32_t* to) {
  const float largest = __uint_as_float(WarpMaximum(magnitude)) * scale;
  if (threadIdx.x % kWarp == 0) atomicMax(to, MagnitudeBits(ToFloat(FromFloat<T>(largest))));
}

}  // namespace plimsoll::ops
