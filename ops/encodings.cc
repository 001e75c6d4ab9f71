#include "ops/encodings.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/dynamic_codes.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kBlock = kDynamic8.block;

// The tables, with int32 indices. They are as wide as the numbers, so that the compiler can look up
// several at once.
template <bool kSigned>
constexpr auto kCodes = MakeDynamicCodes<kSigned, int32_t>();

// Encodes one block, and returns its scale.
template <bool kSigned>
float EncodeBlock(const float* numbers, int64_t count, uint8_t* codes) {
  // The bits of magnitudes compare like the magnitudes, with infinity and NaNs largest.
  int32_t largest_bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest_bits = std::max(largest_bits, std::bit_cast<int32_t>(std::fabs(numbers[i])));
  }
  const float largest = std::bit_cast<float>(largest_bits);
  if (largest == 0 || !std::isfinite(largest)) {
    std::fill_n(codes, count, static_cast<uint8_t>(kDynamicZero<kSigned>));
    return largest == 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  int32_t found[kBlock];
  for (int64_t i = 0; i < count; ++i) {
    found[i] = kCodes<kSigned>.template Nearest<kSigned>(numbers[i] / largest);
  }
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(found[i]);
  return largest;
}

}  // namespace

template <bool kSigned>
void EncodeDynamic(const float* numbers, int64_t count, void* codes, void* scales) {
  auto* const code = static_cast<uint8_t*>(codes);
  auto* scale = static_cast<float*>(scales);
  for (int64_t at = 0; at < count; at += kBlock) {
    *scale++ = EncodeBlock<kSigned>(numbers + at, std::min(kBlock, count - at), code + at);
  }
}

template <bool kSigned>
void DecodeDynamic(const void* codes, const void* scales, int64_t count, float* numbers) {
  const auto* const code = static_cast<const uint8_t*>(codes);
  for (int64_t at = 0; at < count; at += kBlock) {
    const float scale = static_cast<const float*>(scales)[at / kBlock];
    const int64_t end = std::min(at + kBlock, count);
    for (int64_t i = at; i < end; ++i) numbers[i] = kCodes<kSigned>.values[code[i]] * scale;
  }
}

template void EncodeDynamic<true>(const float*, int64_t, void*, void*);
template void EncodeDynamic<false>(const float*, int64_t, void*, void*);
template void DecodeDynamic<true>(const void*, const void*, int64_t, float*);
template void DecodeDynamic<false>(const void*, const void*, int64_t, float*);

}  // namespace plimsoll::ops
