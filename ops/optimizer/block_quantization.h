// 8-bit optimizer state by block-wise quantization: numbers in 8 bits each plus one float32 per
// block of 256, the form of optimizer state with optimizer.state_dtype int8. Dettmers et al. 2022,
// "8-bit Optimizers via Block-wise Quantization", section 2.
//
//   scale = max |x| over the block,   code = the one whose value is nearest to x / scale
//
// The values are the paper's dynamic ones: seven decades of magnitude, from 1e-6 on. Larger decades
// are divided more finely (the values are the middles of 2^i equal parts of decade i); 0 and 1 are
// added. The signed set has each value as + and −; the unsigned set uses the sign bit for twice as
// many parts. Either has 256 values; codes number them in ascending order.
#pragma once

#include <array>
#include <cstdint>

#include "ops/optimizer/block_codes.h"
#include "ops/optimizer/optimizer.h"

namespace plimsoll::ops {

class BlockQuantizer {
 public:
  // For values of either sign: first moments.
  static const BlockQuantizer& Signed();
  // For values ≥ 0: second moments. A positive number never becomes zero, but at least the smallest
  // positive value: a second moment that became zero beside a nonzero first one would make an
  // unbounded update.
  static const BlockQuantizer& Unsigned();

  // The value of a code, in [-1, 1].
  float value(uint8_t code) const { return values_[code]; }
  // The code of x, |x| ≤ 1.
  uint8_t CodeOf(float x) const;

  // Quantizes `count` ≤ kStateBlock numbers of one block: writes their codes and returns the scale.
  // A block that contains an infinity or a NaN becomes NaN as a whole.
  float Quantize(const float* x, int64_t count, uint8_t* codes) const;
  void Dequantize(const uint8_t* codes, float scale, int64_t count, float* x) const;

 private:
  explicit BlockQuantizer(bool with_sign);

  int32_t IndexOf(float magnitude) const;  // of the nearest magnitude
  int32_t FindCode(float x) const;

  int32_t zero_;
  std::array<float, 256> values_;
  std::array<float, 256> borders_;
  // int32, as wide as the values computed with, so that the compiler can look several up at once.
  std::array<int32_t, BlockCodes::kBuckets> at_bucket_;
};

}  // namespace plimsoll::ops
