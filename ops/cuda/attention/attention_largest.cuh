// The largest magnitude of what attention's kernels store (ops/cuda/largest.cuh), found before it
// is scaled and rounded: a positive factor and rounding keep the order of magnitudes, so the
// largest result is that of the largest number. Nothing waits for the atomic maximum.
#pragma once

#include "ops/cuda/largest.cuh"

namespace plimsoll::ops {

// The bits of |x|.
__device__ inline uint32_t MagnitudeBits(float x) { return __float_as_uint(x) & 0x7fffffff; }

// All lanes of a warp call it with the bits of a magnitude: *to becomes at least the largest of
// them, scaled and stored as a T.
template <typename T>
__device__ void AddStoredMagnitude(uint32_t magnitude, float scale, uint32_t* to) {
  const float largest = __uint_as_float(WarpMaximum(magnitude)) * scale;
  if (threadIdx.x % kWarp == 0) atomicMax(to, MagnitudeBits(ToFloat(FromFloat<T>(largest))));
}

}  // namespace plimsoll::ops
