// Vectors of 16-bit elements: conversions equal those of base/low_precision.h to the bit.
#include "ops/simd.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/low_precision.h"

namespace plimsoll::ops {
namespace {

constexpr uint32_t kPatterns = 0x10000;

float FloatOf(BFloat16 value) { return FromBf16(value.bits); }
float FloatOf(Float16 value) { return FromF16(value.bits); }
void Convert(float value, BFloat16* to) { to->bits = ToBf16(value); }
void Convert(float value, Float16* to) { to->bits = ToF16(value); }

// Equal bits, or both NaN.
bool Same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

template <typename S>
class VectorConversion : public testing::Test {};
using Stored = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(VectorConversion, Stored);

TYPED_TEST(VectorConversion, LoadsEveryPattern) {
  using S = TypeParam;
  for (uint32_t first = 0; first < kPatterns; first += 8) {
    S stored[8];
    for (uint32_t i = 0; i < 8; ++i) stored[i].bits = static_cast<uint16_t>(first + i);
    const Vec<float> loaded = Load<float>(stored);
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(Same(loaded[i], FloatOf(stored[i]))) << first + i;
  }
}

// Around every value of the type and every tie between two of them.
TYPED_TEST(VectorConversion, StoresAsTheScalarConversion) {
  using S = TypeParam;
  constexpr uint32_t kAround[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001,
                                  0x7fff, 0x8000, 0x8001, 0xb000, 0xd000, 0xf000, 0xffff, 0x4000};
  for (uint32_t high = 0; high < kPatterns; ++high) {
    for (int part : {0, 8}) {
      Vec<float> v = {};
      for (int i = 0; i < 8; ++i) v[i] = std::bit_cast<float>((high << 16) | kAround[part + i]);
      S stored[8];
      Store<float>(stored, v);
      for (int i = 0; i < 8; ++i) {
        S expected;
        Convert(v[i], &expected);
        ASSERT_TRUE(std::isnan(v[i]) ? std::isnan(FloatOf(stored[i]))
                                     : stored[i].bits == expected.bits)
            << std::bit_cast<uint32_t>(v[i]) << " gives " << stored[i].bits;
      }
    }
  }
}

TYPED_TEST(VectorConversion, TouchesOnlyItsElements) {
  using S = TypeParam;
  for (int count = 0; count <= 8; ++count) {
    S from[9], to[9];
    for (S& element : from) Convert(3, &element);
    for (S& element : to) Convert(5, &element);
    const Vec<float> loaded = Load<float>(from, count);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(loaded[i], i < count ? 3 : 0);
    Store<float>(to, loaded, count);
    for (int i = 0; i < 9; ++i) EXPECT_EQ(FloatOf(to[i]), i < count ? 3 : 5);
  }
}

}  // namespace
}  // namespace plimsoll::ops
