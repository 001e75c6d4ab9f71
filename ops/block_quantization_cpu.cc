#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/block_quantization.h"

namespace plimsoll::ops {
namespace {

constexpr int kDecades = 7;

}  // namespace

const BlockQuantizer& BlockQuantizer::Signed() {
  static const BlockQuantizer quantizer(true);
  return quantizer;
}

const BlockQuantizer& BlockQuantizer::Unsigned() {
  static const BlockQuantizer quantizer(false);
  return quantizer;
}

BlockQuantizer::BlockQuantizer(bool with_sign) : with_sign_(with_sign) {
  std::array<double, 256> magnitudes = {0};
  int count = 1;
  for (int decade = 0; decade < kDecades; ++decade) {
    const double top = std::pow(10.0, decade - (kDecades - 1));
    const int parts = (with_sign ? 1 : 2) << decade;
    for (int part = 0; part < parts; ++part) {
      magnitudes[count++] = top * (0.1 + 0.9 * (part + 0.5) / parts);
    }
  }
  magnitudes[count++] = 1;

  // Below zero all magnitudes but 1, which has no code left.
  zero_ = with_sign ? count - 2 : 0;
  for (int i = 0; i < count; ++i) values_[zero_ + i] = static_cast<float>(magnitudes[i]);
  for (int i = 1; i <= zero_; ++i) values_[zero_ - i] = static_cast<float>(-magnitudes[i]);

  borders_.fill(std::numeric_limits<float>::infinity());
  for (int i = 0; i + 1 < count; ++i) {
    borders_[i] = static_cast<float>((magnitudes[i] + magnitudes[i + 1]) / 2);
  }
  if (!with_sign) borders_[0] = std::numeric_limits<float>::denorm_min();
  int32_t index = 0;
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    const auto lower = std::bit_cast<float>(static_cast<uint32_t>(kFirstBucket + bucket) << 16);
    while (borders_[index] <= lower) ++index;
    at_bucket_[bucket] = bucket == 0 ? 0 : index;  // bucket 0 begins at zero
  }
}

inline int32_t BlockQuantizer::IndexOf(float magnitude) const {
  const auto upper = static_cast<int32_t>(std::bit_cast<uint32_t>(magnitude) >> 16);
  const int32_t index = at_bucket_[std::clamp(upper - kFirstBucket, 0, kBuckets - 1)];
  return index + (magnitude >= borders_[index] ? 1 : 0);
}

// Without branches, so that the compiler can search for several at once.
inline int32_t BlockQuantizer::FindCode(float x) const {
  const int32_t index = IndexOf(std::fabs(x));
  const int32_t negative = std::bit_cast<int32_t>(x) >> 31;  // 0 or -1
  const int32_t capped = std::min(index, zero_ | (~negative & 0xff));
  return zero_ + ((capped ^ negative) - negative);
}

uint8_t BlockQuantizer::CodeOf(float x) const { return static_cast<uint8_t>(FindCode(x)); }

float BlockQuantizer::Quantize(const float* x, int64_t count, uint8_t* codes) const {
  // Bits of magnitudes compare as they do, with infinity and the NaNs above all.
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
