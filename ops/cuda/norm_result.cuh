// The arithmetic of norms for one element: it gives the same bits in the forward pass and in
// kernels that recompute the norm.
#pragma once

namespace plimsoll::ops {

__device__ inline float NormResult(float x, float mean, float rstd, float weight, float bias) {
  return __fmaf_rn(__fmul_rn(__fsub_rn(x, mean), rstd), weight, bias);
}

// What is added to the weight of a norm: 1 with a unit offset (ops/norms/unit_offset.h), or else
// −0, which leaves every number as it is.
inline float NormOffset(bool unit_offset) { return unit_offset ? 1.0f : -0.0f; }

// The factor of the norm: the weight, or 1 + weight.
__device__ inline float NormWeight(float weight, float offset) { return __fadd_rn(weight, offset); }
template <int N>
__device__ inline void ToNormWeights(float (&weights)[N], float offset) {
#pragma unroll
  for (int i = 0; i < N; ++i) weights[i] = NormWeight(weights[i], offset);
}

}  // namespace plimsoll::ops
