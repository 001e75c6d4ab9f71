// Numbers in 8 bits each plus one float32 per block of 256: how optimizer state is held with
// optimizer.state_dtype int8. Dettmers et al. 2022, "8-bit Optimizers via Block-wise
// Quantization", section 2.
//
//   scale = max |x| over the block,   code = the one whose value is nearest to x / scale
//
// The values are the paper's dynamic ones: seven decades of magnitude, from 1e-6 on, the larger the
// decade the finer it is divided (decade i into 2^i equal parts, their middles), with 0 and 1. The
// signed set has each part twice, as + and −; the unsigned one spends the sign bit on a division
// twice as fine. Either has 256 values; codes number them in ascending order.
#pragma once

#include <array>
#include <cstdint>

#include "ops/block_codes.h"
#include "ops/optimizer.h"

namespace plimsoll::ops {

class BlockQuantizer {
 public:
  // For values of either sign: first moments.
  static const BlockQuantizer& Signed();
  // For values ≥ 0: second moments. What is positive never becomes zero, but at least the smallest
  // positive value: a second moment that vanished beside a first one that did not would make an
  // update without bound.
  static const BlockQuantizer& Unsigned();

  // The value of a code, in [-1, 1].
  float value(uint8_t code) const { return values_[code]; }
  // The code of x, |x| ≤ 1.
  uint8_t CodeOf(float x) const;

  // `count` ≤ kStateBlock numbers of one block. Writes their codes, returns the scale; a block with
  // an infinity or a NaN becomes NaN as a whole.
  float Quantize(const float* x, int64_t count, uint8_t* codes) const;
  void Dequantize(const uint8_t* codes, float scale, int64_t count, float* x) const;

 private:
  explicit BlockQuantizer(bool with_sign);

  int32_t IndexOf(float magnitude) const;  // of the nearest magnitude
  int32_t FindCode(float x) const;

  int32_t zero_;
  std::array<float, 256> values_;
  std::array<float, 256> borders_;
  // As wide as what is computed with: the compiler looks several up at once.
  std::array<int32_t, BlockCodes::kBuckets> at_bucket_;
};

}  // namespace plimsoll::ops
