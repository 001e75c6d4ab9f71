// Converts float32 numbers to 8-bit codes (base/float8.h), four at a time, and back; transposes
// codes within registers.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "base/float8.h"

namespace plimsoll::ops {

// The codes of a, b, c and d; a's is in the lowest byte. Code: Float8E4M3 or Float8E5M2.
template <typename Code>
__device__ uint32_t FourCodes(float a, float b, float c, float d) {
  constexpr auto kType = std::is_same_v<Code, Float8E4M3> ? __NV_E4M3 : __NV_E5M2;
  const uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, kType);
  const uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, kType);
  return high << 16 | low;
}

// The codes of eight numbers times a factor. The product is rounded to float32, as on the CPU.
template <typename Code>
__device__ uint2 EightCodes(const float (&x)[8], float factor) {
  float scaled[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) scaled[i] = __fmul_rn(x[i], factor);
  return {FourCodes<Code>(scaled[0], scaled[1], scaled[2], scaled[3]),
          FourCodes<Code>(scaled[4], scaled[5], scaled[6], scaled[7])};
}

// The numbers of four codes. They are converted through 16-bit numbers, which represent every code
// exactly.
template <typename Code>
__device__ void FourNumbers(uint32_t codes, float* numbers) {
  constexpr auto kType = std::is_same_v<Code, Float8E4M3> ? __NV_E4M3 : __NV_E5M2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const auto pair = static_cast<__nv_fp8x2_storage_t>(codes >> (16 * i));
    const float2 two = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, kType)));
    numbers[2 * i] = two.x;
    numbers[2 * i + 1] = two.y;
  }
}

// The numbers of eight codes times a factor, rounded to float32.
template <typename Code>
__device__ void EightNumbers(uint2 codes, float factor, float (&x)[8]) {
  FourNumbers<Code>(codes.x, x);
  FourNumbers<Code>(codes.y, x + 4);
#pragma unroll
  for (float& number : x) number = __fmul_rn(number, factor);
}

// Transposes four rows of four bytes: byte j of word i becomes byte i of word j.
__device__ inline void TransposeBytes(uint32_t (&words)[4]) {
  const uint32_t low01 = __byte_perm(words[0], words[1], 0x5140);
  const uint32_t low23 = __byte_perm(words[2], words[3], 0x5140);
  const uint32_t high01 = __byte_perm(words[0], words[1], 0x7362);
  const uint32_t high23 = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low01, low23, 0x5410);
  words[1] = __byte_perm(low01, low23, 0x7632);
  words[2] = __byte_perm(high01, high23, 0x5410);
  words[3] = __byte_perm(high01, high23, 0x7632);
}

}  // namespace plimsoll::ops
