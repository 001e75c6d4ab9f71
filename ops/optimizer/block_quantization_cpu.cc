#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/optimizer/block_quantization.h"

namespace plimsoll::ops {
const BlockQuantizer& BlockQuantizer::Signed() {
  static const BlockQuantizer quantizer(true);
  return quantizer;
}

const BlockQuantizer& BlockQuantizer::Unsigned() {
  static const BlockQuantizer quantizer(false);
  return quantizer;
}

BlockQuantizer::BlockQuantizer(bool with_sign) {
  const BlockCodes codes = MakeBlockCodes(with_sign);
  zero_ = codes.zero;
  values_ = codes.values;
  borders_ = codes.borders;
  std::copy(codes.at_bucket.begin(), codes.at_bucket.end(), at_bucket_.begin());
}

inline int32_t BlockQuantizer::IndexOf(float magnitude) const {
  const auto upper = static_cast<int32_t>(std::bit_cast<uint32_t>(magnitude) >> 16);
  const int32_t index =
      at_bucket_[std::clamp(upper - BlockCodes::kFirstBucket, 0, BlockCodes::kBuckets - 1)];
  return index + (magnitude >= borders_[index] ? 1 : 0);
}

// Free of branches, so that the compiler can search for several at once.
inline int32_t BlockQuantizer::FindCode(float x) const {
  const int32_t index = IndexOf(std::fabs(x));
  const int32_t negative = std::bit_cast<int32_t>(x) >> 31;  // 0 or -1
  const int32_t capped = std::min(index, zero_ | (~negative & 0xff));
  return zero_ + ((capped ^ negative) - negative);
}

uint8_t BlockQuantizer::CodeOf(float x) const { return static_cast<uint8_t>(FindCode(x)); }

float BlockQuantizer::Quantize(const float* x, int64_t count, uint8_t* codes) const {
  // The bits of magnitudes compare like the magnitudes, with infinity and NaNs largest.
  int32_t largest_bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest_bits = std::max(largest_bits, std::bit_cast<int32_t>(std::fabs(x[i])));
  }
  const float largest = std::bit_cast<float>(largest_bits);
  if (largest == 0 || !std::isfinite(largest)) {
    std::fill_n(codes, count, static_cast<uint8_t>(zero_));
    return largest == 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  int32_t found[kStateBlock];
  for (int64_t i = 0; i < count; ++i) found[i] = FindCode(x[i] / largest);
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(found[i]);
  return largest;
}

void BlockQuantizer::Dequantize(const uint8_t* codes, float scale, int64_t count, float* x) const {
  for (int64_t i = 0; i < count; ++i) x[i] = values_[codes[i]] * scale;
}

}  // namespace plimsoll::ops
