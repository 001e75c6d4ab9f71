// The scale between numbers and their 8-bit codes: code = round(number · to_code), number = code ·
// to_number. A tensor has one scale, which is made from its largest magnitude or from the
// magnitudes of earlier steps. The same bits on every device.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace plimsoll::ops {

struct CodeScale {
  float to_code, to_number;
};

// `largest`: the largest magnitude, as the bits of a float32. It is an integer maximum of the bits
// of |x|, which keeps infinity and NaN. `most`: the largest number of the codes' type.
//
// Conversion to codes saturates, which would hide an overflow. Therefore all codes of a tensor
// whose largest magnitude isn't finite are NaN. Then every product with them is NaN, and loss
// scaling, the gradient's norm and the check for divergence detect it.
constexpr CodeScale ScaleOf(uint32_t largest, float most) {
  constexpr float kMax = std::numeric_limits<float>::max();
  if (largest >= 0x7f800000) return {1, std::numeric_limits<float>::quiet_NaN()};
  if (largest == 0) return {1, 1};
  const float factor = most / std::bit_cast<float>(largest);
  const float to_code = factor < kMax ? factor : kMax;
  return {to_code, 1 / to_code};
}

// The magnitude, as bits, from which a scale is made: the one expected from earlier steps, unless
// that is 0 or the tensor isn't finite.
constexpr uint32_t MagnitudeFor(uint32_t largest, uint32_t expected) {
  return expected == 0 || largest >= 0x7f800000 ? largest : expected;
}

}  // namespace plimsoll::ops
