// Exponentials by the GPU's own approximation (2 ulp), which has base 2.
#pragma once

namespace plimsoll::ops {

inline constexpr float kLog2E = 1.4426950408889634f;

// 2^x; 0 if the result would be subnormal.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace plimsoll::ops
