// The codes dynamic8 of ops/encodings.h: 8 bits for numbers in [-1, 1] or [0, 1], and how a CPU
// finds the nearest code. CPU and GPU use the same tables, computed at compile time.
//
// The values are the dynamic ones of Dettmers et al.: seven decades of magnitude, from 1e-6 on.
// Larger decades are divided more finely (the values are the middles of 2^i equal parts of decade
// i); 0 and 1 are added. The signed set has each value as + and −; the unsigned set uses the sign
// bit for twice as many parts. Both sets have 256 values; codes number them in ascending order.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace plimsoll::ops {

template <bool kSigned>
inline constexpr int32_t kDynamicZero = kSigned ? 127 : 0;  // the code of 0

// Index: the element type of at_bucket.
template <typename Index>
struct DynamicCodes {
  // Magnitudes are looked up by their upper 16 bits, to a relative precision of 1/128, from 2^-24
  // on. Buckets are finer than the distances between values, so a bucket contains at most one
  // border between two values.
  static constexpr int kFirstBucket = (127 - 24) << 7;
  static constexpr int kBuckets = (127 << 7) + 1 - kFirstBucket;

  std::array<float, 256> values{};          // the value of each code
  std::array<float, 256> borders{};         // the border between magnitudes i and i + 1; after the
                                            // last one: ∞
  std::array<Index, kBuckets> at_bucket{};  // index of the magnitude at the bucket's lower end

  // The code whose value is nearest to x, |x| ≤ 1. Without a sign, negative numbers and NaN count
  // as 0, so that the index stays within the tables for any bits of x. The function has no
  // branches, so that a compiler can search for several codes at once. It is not constexpr, so that
  // no kernel can call it: in a kernel std::max would take references to host objects
  // (ops/cuda/coded_moment.cuh).
  template <bool kSigned>
  int32_t Nearest(float x) const {
    constexpr int32_t kZero = kDynamicZero<kSigned>;
    const auto bits = std::bit_cast<int32_t>(x);
    const auto magnitude =
        std::bit_cast<float>(bits & (kSigned ? 0x7fffffff : -static_cast<int32_t>(x > 0)));
    const int32_t upper = std::bit_cast<int32_t>(magnitude) >> 16;
    const int32_t found = at_bucket[std::max(upper, kFirstBucket) - kFirstBucket];
    const int32_t index = found + (magnitude >= borders[found] ? 1 : 0);
    if constexpr (!kSigned) return index;
    return bits < 0 ? kZero - std::min(index, kZero) : kZero + index;
  }
};

template <bool kSigned, typename Index>
constexpr DynamicCodes<Index> MakeDynamicCodes() {
  // The largest magnitude of each decade.
  constexpr std::array<double, 7> kTops = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  std::array<double, 256> magnitudes = {0};
  int count = 1;
  for (int decade = 0; decade < 7; ++decade) {
    const int parts = (kSigned ? 1 : 2) << decade;
    for (int part = 0; part < parts; ++part) {
      magnitudes[count++] = kTops[decade] * (0.1 + 0.9 * (part + 0.5) / parts);
    }
  }
  magnitudes[count++] = 1;

  // The negative values have all magnitudes except 1, because only 256 codes exist.
  DynamicCodes<Index> codes;
  constexpr int kZero = kDynamicZero<kSigned>;
  for (int i = 0; i < count; ++i) codes.values[kZero + i] = static_cast<float>(magnitudes[i]);
  for (int i = 1; i <= kZero; ++i) codes.values[kZero - i] = static_cast<float>(-magnitudes[i]);

  codes.borders.fill(std::numeric_limits<float>::infinity());
  for (int i = 0; i + 1 < count; ++i) {
    codes.borders[i] = static_cast<float>((magnitudes[i] + magnitudes[i + 1]) / 2);
  }
  if (!kSigned) codes.borders[0] = std::numeric_limits<float>::denorm_min();
  int index = 0;
  for (int bucket = 0; bucket < codes.kBuckets; ++bucket) {
    const auto lower =
        std::bit_cast<float>(static_cast<uint32_t>(codes.kFirstBucket + bucket) << 16);
    while (codes.borders[index] <= lower) ++index;
    // Bucket 0 begins at zero.
    codes.at_bucket[bucket] = static_cast<Index>(bucket == 0 ? 0 : index);
  }
  return codes;
}

}  // namespace plimsoll::ops
