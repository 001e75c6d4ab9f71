// How numbers and their 8-bit codes are related: code = round(number · to_code), and a code is
// the number code · to_number. One scale for a tensor, from its largest magnitude or that of tensors
// before it. The same bits on every device.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace plimsoll::ops {

struct CodeScale {
  float to_code, to_number;
};

// `largest`: the bits of a float32, the largest magnitude as an integer maximum of the bits of |x|,
// which keeps infinity and NaN. `most`: the largest number of the codes' type.
//
// Conversion to codes saturates, and so would hide an overflow. So the codes of a tensor whose
// largest magnitude isn't finite are NaN, all of them: every product with them is NaN, as is
// what loss scaling, the gradient's norm and the check for divergence look at.
constexpr CodeScale ScaleOf(uint32_t largest, float most) {
  constexpr float kMax = std::numeric_limits<float>::max();
  if (largest >= 0x7f800000) return {1, std::numeric_limits<float>::quiet_NaN()};
  if (largest == 0) return {1, 1};
  const float factor = most / std::bit_cast<float>(largest);
  const float to_code = factor < kMax ? factor : kMax;
  return {to_code, 1 / to_code};
}

// The magnitude of which a scale is made, as bits: what is expected of the tensor by those before
// it, unless that is 0, or the tensor isn't finite.
constexpr uint32_t MagnitudeFor(uint32_t largest, uint32_t expected) {
  return expected == 0 || largest >= 0x7f800000 ? largest : expected;
}

}  // namespace plimsoll::ops
