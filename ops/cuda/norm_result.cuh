// The arithmetic of norms for one element: it gives the same bits in the forward pass and in
// kernels that recompute the norm.
#pragma once

namespace plimsoll::ops {

__device__ inline float NormResult(float x, float mean, float rstd, float weight, float bias) {
  return __fmaf_rn(__fmul_rn(__fsub_rn(x, mean), rstd), weight, bias);
}

// The factor of the norm: the weight, or 1 + weight (ops/norms/unit_offset.h).
template <bool kUnitOffset>
__device__ inline float NormWeight(float weight) {
  if constexpr (kUnitOffset) {
    return __fadd_rn(weight, 1.0f);
  } else {
    return weight;
  }
}
template <bool kUnitOffset, int N>
__device__ inline void ToNormWeights(float (&weights)[N]) {
  if constexpr (kUnitOffset) {
#pragma unroll
    for (int i = 0; i < N; ++i) weights[i] = NormWeight<true>(weights[i]);
  }
}

// On the host: calls body.template operator()<whether the norm has a unit offset>(). Only norms
// without a mean can have one.
template <bool kMean, typename Body>
void DispatchUnitOffset(bool unit_offset, const Body& body) {
  if constexpr (kMean) {
    body.template operator()<false>();
  } else {
    unit_offset ? body.template operator()<true>() : body.template operator()<false>();
  }
}

}  // namespace plimsoll::ops
