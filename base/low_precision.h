// Converts between float32 and the bits of the 16-bit floating-point types. Rounds to nearest, ties
// to even. NaN stays NaN, overflow becomes infinity, and subnormals are kept. constexpr functions
// run on GPUs, too, with the same bits.
#pragma once

#include <bit>
#include <cstdint>

namespace plimsoll {

// Elements of bf16 and f16 tensors.
struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

constexpr float FromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

constexpr uint16_t ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  // Rounding could clear a NaN's payload; setting the quiet bit keeps it a NaN.
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

constexpr float FromF16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (magnitude << 13));
  if (magnitude < 0x0400) {  // subnormal: a multiple of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));  // 112 = 127 - 15
}

constexpr uint16_t ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);   // NaN
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and above
  if (magnitude < 0x38800000) {
    // For numbers below 2^-14. The last place of 0.5f is 2^-24, the spacing of subnormals, so the
    // addition does the rounding.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

// Rounds stochastically to one of the two neighbours, more often to the nearer one, so that the
// mean over `random` (16 bits, uniform) is the value itself. An update smaller than the type's
// spacing is then not lost, but applied rarely. Values that the type holds exactly don't change.
inline uint16_t ToBf16Stochastic(float value, uint32_t random) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + (random & 0xffff)) >> 16);
}

// A float32, split into its nearest bf16 (ties away from zero) and the remainder. Together they
// give the value, to the bit; only a NaN's payload is lost.
struct SplitFloat {
  BFloat16 high;
  int16_t low;
};

constexpr SplitFloat Split(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  // Rounding could turn a NaN with a large payload into another number.
  if ((bits & 0x7fffffff) > 0x7f800000) bits = (bits & 0x80000000) | 0x7fc00000;
  const uint32_t high = (bits + 0x8000) >> 16;
  return {{static_cast<uint16_t>(high)}, static_cast<int16_t>(bits - (high << 16))};
}

constexpr float Join(BFloat16 high, int16_t low) {
  return std::bit_cast<float>((uint32_t{high.bits} << 16) + static_cast<uint32_t>(int32_t{low}));
}

constexpr float ToFloat(BFloat16 value) { return FromBf16(value.bits); }
constexpr float ToFloat(Float16 value) { return FromF16(value.bits); }

}  // namespace plimsoll
