// GELU and SiLU with their slopes, in float. Products and sums are intrinsics if a compiler could
// fuse them in one kernel and not in another: a function has the same bits wherever it is used,
// alone or together with its gradient.
//
// Exponentials and reciprocals are the GPU's own approximations (2 ulp). Each element needs two of
// them, which takes no longer than four bytes of memory traffic per element.
#pragma once

#include <cuda_runtime.h>

#include "ops/cuda/exp2.cuh"

namespace plimsoll::ops {

struct ValueAndSlope {
  float value, slope;  // f(x), f'(x)
};

__device__ inline float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / (1 + e^-x), given x · log₂ e.
__device__ inline float SigmoidOfLog2(float x) { return Reciprocal(__fadd_rn(1.0f, Exp2(-x))); }

// y = x · σ(x).
struct SiluFunction {
  __device__ ValueAndSlope operator()(float x) const {
    const float s = SigmoidOfLog2(__fmul_rn(x, kLog2E));
    const float y = __fmul_rn(x, s);
    // σ · (1 + x · (1 − σ)) = σ + y · (1 − σ)
    return {y, __fmaf_rn(y, __fsub_rn(1.0f, s), s)};
  }
};

// y = x · σ(2u), 2u = kSlope · x + kCubic · x³: as ops/elementwise/activations_cpu.cc.
struct TanhGelu {
  __device__ ValueAndSlope operator()(float x) const {
    constexpr double kSlope = 1.59576912160573071176;  // 2 · √(2/π)
    constexpr double kCubic = kSlope * 0.044715;
    constexpr float kLogSlope = static_cast<float>(kSlope * 1.44269504088896340736);
    constexpr float kLogCubic = static_cast<float>(kCubic * 1.44269504088896340736);
    const float square = __fmul_rn(x, x);
    const float s = SigmoidOfLog2(__fmul_rn(x, __fmaf_rn(square, kLogCubic, kLogSlope)));
    const float y = __fmul_rn(x, s);
    const float slope =
        __fmaf_rn(square, static_cast<float>(3 * kCubic), static_cast<float>(kSlope));
    return {y, __fmaf_rn(__fmul_rn(y, __fsub_rn(1.0f, s)), slope, s)};
  }
};

// y = x · Φ(x), by the Mills ratio like ops/simd.h: both tails keep their relative precision.
struct ExactGelu {
  __device__ ValueAndSlope operator()(float x) const {
    constexpr float kInverseSqrt2Pi = 0.39894228040143267794f;
    constexpr float kCoefficients[] = {-0.179435447f, 0.3880862f,     -0.381159186f,
                                       0.124874398f,  -0.0294128545f, 0.0921067521f,
                                       0.13300024f,   0.159641191f,   0.159575343f};
    const float exponential = Exp2(__fmul_rn(__fmul_rn(x, x), -0.5f * kLog2E));
    const float t = Reciprocal(__fmaf_rn(fabsf(x), 0.4f, 1.0f));
    float p = 0.0327233672f;
#pragma unroll
    for (float coefficient : kCoefficients) p = __fmaf_rn(p, t, coefficient);
    const float tail = __fmul_rn(__fmul_rn(p, t), exponential);
    const float cdf = x < 0 ? tail : __fsub_rn(1.0f, tail);
    return {__fmul_rn(x, cdf), __fmaf_rn(__fmul_rn(x, kInverseSqrt2Pi), exponential, cdf)};
  }
};

}  // namespace plimsoll::ops
