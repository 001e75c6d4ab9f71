// GELU's tanh form and its derivative: gelu(x) = x · Φ̃(x), Φ̃(x) = ½ (1 + tanh(√(2/π) (x + 0.044715
// x³))). Hendrycks, Gimpel 2016, "Gaussian Error Linear Units", section 2.
#pragma once

namespace plimsoll::ops {

__device__ inline float GeluTanh(float x) {
  const float t = tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x));
  return 0.5f * x * (1 + t);
}

__device__ inline float GeluTanhGradient(float x) {
  const float t = tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) +
         0.5f * x * (1 - t * t) * 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
}

}  // namespace plimsoll::ops
