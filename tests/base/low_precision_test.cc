#include "base/low_precision.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace plimsoll {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Values of the 16-bit type grow with its bits, so the neighbours of a float are known: checks that
// `to` picks the nearer one, and the one with the even last bit when both are equally far.
void CheckRounding(uint16_t (*to)(float), float (*from)(uint16_t), uint16_t infinity) {
  for (uint32_t low = 0; low + 1 < infinity; ++low) {
    const float below = from(static_cast<uint16_t>(low));
    const float above = from(static_cast<uint16_t>(low + 1));
    const auto middle = static_cast<float>((double{below} + double{above}) / 2);
    const uint32_t even = low % 2 == 0 ? low : low + 1;
    ASSERT_EQ(to(below), low);
    ASSERT_EQ(to(-below), low | 0x8000);
    ASSERT_EQ(to(middle), even) << middle;
    ASSERT_EQ(to(std::nextafter(middle, 0.0f)), low) << middle;
    ASSERT_EQ(to(std::nextafter(middle, kInfinity)), low + 1) << middle;
  }
  EXPECT_EQ(to(kInfinity), infinity);
  EXPECT_EQ(to(-kInfinity), infinity | 0x8000);
  EXPECT_EQ(from(infinity), kInfinity);
  EXPECT_EQ(from(infinity | 0x8000), -kInfinity);
  EXPECT_EQ(to(std::numeric_limits<float>::max()), infinity);
  for (const uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(from(to(std::bit_cast<float>(bits))))) << bits;
  }
  EXPECT_TRUE(std::isnan(from(static_cast<uint16_t>(infinity + 1))));
  EXPECT_TRUE(std::signbit(from(0x8000)));
}

TEST(LowPrecision, F16RoundsToNearestEven) {
  CheckRounding(ToF16, FromF16, 0x7c00);
  EXPECT_EQ(FromF16(0x0001), 0x1p-24f);
  EXPECT_EQ(FromF16(0x3c00), 1.0f);
  EXPECT_EQ(FromF16(0x7bff), 65504.0f);
  EXPECT_EQ(ToF16(65519.996f), 0x7bff);
  EXPECT_EQ(ToF16(65520.0f), 0x7c00);
}

TEST(LowPrecision, Bf16RoundsToNearestEven) {
  CheckRounding(ToBf16, FromBf16, 0x7f80);
  EXPECT_EQ(FromBf16(0x3f80), 1.0f);
  EXPECT_EQ(FromBf16(0xc000), -2.0f);
}

}  // namespace
}  // namespace plimsoll
