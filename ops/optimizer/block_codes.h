// The values of the 8-bit codes of ops/optimizer/block_quantization.h and the tables for finding
// the nearest one, computed at compile time: CPU and GPU use the same tables.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace plimsoll::ops {

struct BlockCodes {
  // Magnitudes are looked up by their upper 16 bits, that is to a relative 1/128, from 2^-24 on:
  // finer than the values are spaced, so that a bucket contains at most one border between two
  // values.
  static constexpr int kFirstBucket = (127 - 24) << 7;
  static constexpr int kBuckets = (127 << 7) + 1 - kFirstBucket;

  int32_t zero = 0;                           // code of 0
  std::array<float, 256> values{};            // by code
  std::array<float, 256> borders{};           // between magnitudes i and i + 1; after the last: ∞
  std::array<uint8_t, kBuckets> at_bucket{};  // index of the magnitude at the bucket's lower end
};

constexpr BlockCodes MakeBlockCodes(bool with_sign) {
  // The largest magnitude of each decade.
  constexpr std::array<double, 7> kTops = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  std::array<double, 256> magnitudes = {0};
  int count = 1;
  for (int decade = 0; decade < 7; ++decade) {
    const int parts = (with_sign ? 1 : 2) << decade;
    for (int part = 0; part < parts; ++part) {
      magnitudes[count++] = kTops[decade] * (0.1 + 0.9 * (part + 0.5) / parts);
    }
  }
  magnitudes[count++] = 1;

  // The negative values have all magnitudes but 1, for which no code is left.
  BlockCodes codes;
  codes.zero = with_sign ? count - 2 : 0;
  for (int i = 0; i < count; ++i) {
    codes.values[codes.zero + i] = static_cast<float>(magnitudes[i]);
  }
  for (int i = 1; i <= codes.zero; ++i) {
    codes.values[codes.zero - i] = static_cast<float>(-magnitudes[i]);
  }

  codes.borders.fill(std::numeric_limits<float>::infinity());
  for (int i = 0; i + 1 < count; ++i) {
    codes.borders[i] = static_cast<float>((magnitudes[i] + magnitudes[i + 1]) / 2);
  }
  if (!with_sign) codes.borders[0] = std::numeric_limits<float>::denorm_min();
  int index = 0;
  for (int bucket = 0; bucket < BlockCodes::kBuckets; ++bucket) {
    const auto lower =
        std::bit_cast<float>(static_cast<uint32_t>(BlockCodes::kFirstBucket + bucket) << 16);
    while (codes.borders[index] <= lower) ++index;
    // Bucket 0 begins at zero.
    codes.at_bucket[bucket] = static_cast<uint8_t>(bucket == 0 ? 0 : index);
  }
  return codes;
}

}  // namespace plimsoll::ops
