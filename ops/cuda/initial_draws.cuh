// base/initial_draws.h on the GPU: the same draws, to the bit. The intrinsics round each operation
// by itself and are never contracted.
#pragma once

#include <cstdint>

#include "base/initial_draws.h"
#include "ops/cuda/philox.cuh"

namespace plimsoll::ops {

struct DrawArithmetic {
  using Float = float;
  using Bits = uint32_t;

  __device__ static float Splat(float value) { return value; }
  __device__ static uint32_t SplatBits(uint32_t value) { return value; }
  __device__ static float Multiply(float a, float b) { return __fmul_rn(a, b); }
  __device__ static float Add(float a, float b) { return __fadd_rn(a, b); }
  __device__ static float Root(float a) { return __fsqrt_rn(a); }
  __device__ static float FromInteger(uint32_t a) { return __int2float_rn(static_cast<int>(a)); }
  __device__ static float AsFloat(uint32_t a) { return __uint_as_float(a); }
  __device__ static uint32_t AsBits(float a) { return __float_as_uint(a); }
  __device__ static uint32_t NotBelow(uint32_t a, uint32_t bound) {
    return a >= bound ? 0xFFFFFFFFu : 0u;
  }
  __device__ static float Choose(uint32_t mask, float a, float b) { return mask != 0 ? a : b; }
};

// Elements 4 · block … 4 · block + 3.
__device__ inline void DrawBlock(const InitialDraws& draws, int64_t block, float (&values)[4]) {
  if (draws.kind == InitialDraws::Kind::kConstant) {
#pragma unroll
    for (float& value : values) value = draws.scale;
    return;
  }
  const uint2 key =
      make_uint2(static_cast<uint32_t>(draws.seed), static_cast<uint32_t>(draws.seed >> 32));
  const uint4 words = PhiloxBlock(key, draws.stream, static_cast<uint64_t>(block));
  if (draws.kind == InitialDraws::Kind::kNormal) {
    const auto low = DrawNormals<DrawArithmetic>(words.x, words.y, draws.scale);
    const auto high = DrawNormals<DrawArithmetic>(words.z, words.w, draws.scale);
    values[0] = low.first;
    values[1] = low.second;
    values[2] = high.first;
    values[3] = high.second;
  } else {
    values[0] = DrawUniform<DrawArithmetic>(words.x, draws.scale);
    values[1] = DrawUniform<DrawArithmetic>(words.y, draws.scale);
    values[2] = DrawUniform<DrawArithmetic>(words.z, draws.scale);
    values[3] = DrawUniform<DrawArithmetic>(words.w, draws.scale);
  }
}

}  // namespace plimsoll::ops
