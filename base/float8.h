// The two 8-bit floating-point formats of matrix products. Micikevicius et al. 2022, "FP8 Formats
// for Deep Learning".
//
//          bits: sign, exponent, fraction   largest   smallest     infinity
//   E4M3   1, 4, 3                              448   2^-9         none; NaN is 0x7f and 0xff
//   E5M2   1, 5, 2                           57,344   2^-16        as in IEEE types
//
// Values round to the nearest, ties to even, and saturate: a value beyond the largest number, even
// infinity, becomes the largest number. NaN becomes 0x7f, whatever its sign. Subnormals are kept.
// constexpr functions run on GPUs, too, and give the same bits as the GPU's instruction
// (cvt.rn.satfinite).
#pragma once

#include <bit>
#include <cstdint>

#include "base/low_precision.h"

namespace plimsoll {

// Elements of e4m3 and e5m2 tensors.
struct Float8E4M3 {
  uint8_t bits;
  static constexpr float kLargest = 448;
};
struct Float8E5M2 {
  uint8_t bits;
  static constexpr float kLargest = 57344;
};

// E5M2 is the upper byte of a float16.
constexpr float ToFloat(Float8E5M2 value) {
  return FromF16(static_cast<uint16_t>(value.bits << 8));
}

constexpr float ToFloat(Float8E4M3 value) {
  const uint32_t magnitude = value.bits & 0x7fu;
  const uint32_t sign = (value.bits & 0x80u) << 8;
  if (magnitude == 0x7f) return FromF16(static_cast<uint16_t>(sign | 0x7e00));
  // Converts by way of float16, whose exponent has the bias 15 instead of 7.
  return FromF16(static_cast<uint16_t>(sign | (magnitude << 7))) * 256;
}

// Rounds to a format with `kFraction` fraction bits and the exponent bias `kBias`. `largest` is the
// code of the largest number.
template <int kFraction, int kBias>
constexpr uint8_t ToFloat8(float value, uint32_t largest, uint32_t nan) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint8_t>(nan);
  constexpr int kDropped = 23 - kFraction;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(127 + 1 - kBias) << 23;
  uint32_t code = 0;
  if (magnitude < kSmallestNormal) {
    // The last place of kUnit is the spacing of subnormals, so the addition does the rounding.
    constexpr uint32_t kUnit = static_cast<uint32_t>(127 + 1 - kBias - kFraction + 23) << 23;
    code = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kUnit)) -
           kUnit;
  } else {
    const uint32_t even = (magnitude >> kDropped) & 1;
    const uint32_t rounded = magnitude + (1u << (kDropped - 1)) - 1 + even;
    code = (rounded >> kDropped) - (static_cast<uint32_t>(127 - kBias) << kFraction);
  }
  return static_cast<uint8_t>(sign | (code < largest ? code : largest));
}

constexpr Float8E4M3 ToE4M3(float value) { return {ToFloat8<3, 7>(value, 0x7e, 0x7f)}; }
constexpr Float8E5M2 ToE5M2(float value) { return {ToFloat8<2, 15>(value, 0x7b, 0x7f)}; }

}  // namespace plimsoll
