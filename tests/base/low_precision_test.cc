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
// `to` picks the nearer one, and in a tie the one with the even last bit.
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

void CheckSplit(uint32_t bits) {
  const float value = std::bit_cast<float>(bits);
  const SplitFloat parts = Split(value);
  const float joined = Join(parts.high, parts.low);
  if (std::isnan(value)) {
    ASSERT_TRUE(std::isnan(joined)) << std::hex << bits;
    ASSERT_TRUE(std::isnan(ToFloat(parts.high))) << std::hex << bits;
    return;
  }
  ASSERT_EQ(std::bit_cast<uint32_t>(joined), bits) << std::hex << bits;
  ASSERT_EQ(parts.high.bits, (bits + 0x8000) >> 16) << std::hex << bits;
}

// Covers all bit patterns in steps that visit every exponent and both halves of an interval, then
// the places where the patterns wrap.
TEST(LowPrecision, SplitIsExact) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1021) {
    ASSERT_NO_FATAL_FAILURE(CheckSplit(static_cast<uint32_t>(bits)));
  }
  for (const uint32_t base : {0x00000000u, 0x00008000u, 0x007fffffu, 0x00800000u, 0x3f800000u,
                              0x3f808000u, 0x7f7f8000u, 0x7f7fffffu, 0x7f800000u, 0x7fffffffu}) {
    for (uint32_t near = 0; near < 64; ++near) {
      for (const uint32_t sign : {0u, 0x80000000u}) {
        ASSERT_NO_FATAL_FAILURE(CheckSplit(sign | ((base + near) & 0x7fffffff)));
        ASSERT_NO_FATAL_FAILURE(CheckSplit(sign | ((base - near) & 0x7fffffff)));
      }
    }
  }
  EXPECT_EQ(Split(kInfinity).high.bits, 0x7f80);
  EXPECT_EQ(Split(-kInfinity).high.bits, 0xff80);
  EXPECT_EQ(Split(kInfinity).low, 0);
  // The largest floats round up to infinity; the remainder brings them back.
  EXPECT_EQ(Split(std::numeric_limits<float>::max()).high.bits, 0x7f80);
  EXPECT_EQ(Split(std::numeric_limits<float>::max()).low, -1);
}

// The mean over all 2^16 random words is the value itself, for any value between two neighbours.
TEST(LowPrecision, Bf16StochasticRoundingIsUnbiased) {
  for (const uint32_t bits : {0x3f800001u, 0x3f804000u, 0x3f80ffffu, 0xbf923456u, 0x00001234u,
                              0x7f7e8000u, 0x42f6e979u}) {
    const float value = std::bit_cast<float>(bits);
    const float toward_zero = FromBf16(static_cast<uint16_t>(bits >> 16));
    const float away = FromBf16(static_cast<uint16_t>((bits >> 16) + 1));
    double sum = 0;
    for (uint32_t random = 0; random < 0x10000; ++random) {
      const float rounded = FromBf16(ToBf16Stochastic(value, random));
      ASSERT_TRUE(rounded == toward_zero || rounded == away) << value;
      sum += rounded;
    }
    EXPECT_EQ(sum / 0x10000, value);
  }
}

TEST(LowPrecision, Bf16StochasticRoundingKeepsWhatIsExact) {
  for (uint32_t high = 0; high < 0x10000; ++high) {
    const float value = FromBf16(static_cast<uint16_t>(high));
    for (const uint32_t random : {0u, 1u, 0x8000u, 0xffffu, 0xffffffffu}) {
      const uint16_t rounded = ToBf16Stochastic(value, random);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(FromBf16(rounded)));
      } else {
        ASSERT_EQ(rounded, high);
      }
    }
  }
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(FromBf16(ToBf16Stochastic(std::bit_cast<float>(bits), 0xffff))));
  }
}

}  // namespace
}  // namespace plimsoll
