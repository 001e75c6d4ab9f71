// The 8-bit formats against their definition: all codes, the nearest code of what lies between two,
// what saturates.
#include "base/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plimsoll {
namespace {

// The number of a code with that many bits of exponent and fraction, written out.
double Number(int code, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int fraction = code & ((1 << fraction_bits) - 1);
  const int exponent = (code & 0x7f) >> fraction_bits;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                    : std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

TEST(Float8, EveryE4M3CodeIsItsNumber) {
  for (int code = 0; code < 256; ++code) {
    const Float8E4M3 value{static_cast<uint8_t>(code)};
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(ToFloat(value)));
      EXPECT_EQ(ToE4M3(ToFloat(value)).bits & 0x7f, 0x7f);
    } else {
      EXPECT_EQ(ToFloat(value), Number(code, 4, 3)) << code;
      EXPECT_EQ(ToE4M3(ToFloat(value)).bits, code);
    }
  }
  EXPECT_EQ(ToFloat(Float8E4M3{0x7e}), Float8E4M3::kLargest);
}

TEST(Float8, EveryE5M2CodeIsItsNumber) {
  for (int code = 0; code < 256; ++code) {
    const Float8E5M2 value{static_cast<uint8_t>(code)};
    const int magnitude = code & 0x7f;
    if (magnitude > 0x7c) {
      EXPECT_TRUE(std::isnan(ToFloat(value)));
    } else if (magnitude == 0x7c) {
      EXPECT_TRUE(std::isinf(ToFloat(value)));
    } else {
      EXPECT_EQ(ToFloat(value), Number(code, 5, 2)) << code;
      EXPECT_EQ(ToE5M2(ToFloat(value)).bits, code);
    }
  }
  EXPECT_EQ(ToFloat(Float8E5M2{0x7b}), Float8E5M2::kLargest);
}

// Halfway between two numbers the one with an even code is taken, and just above and below it the
// nearer one.
template <typename Code>
void ExpectNearest(Code (*to)(float), int largest) {
  for (int code = 0; code < largest; ++code) {
    const float low = ToFloat(Code{static_cast<uint8_t>(code)});
    const float high = ToFloat(Code{static_cast<uint8_t>(code + 1)});
    const float half = (low + high) / 2;
    for (const float sign : {1.0f, -1.0f}) {
      const int bit = sign < 0 ? 0x80 : 0;
      EXPECT_EQ(to(sign * half).bits, bit | (code + code % 2)) << code;
      EXPECT_EQ(to(sign * std::nextafter(half, low)).bits, bit | code) << code;
      EXPECT_EQ(to(sign * std::nextafter(half, high)).bits, bit | (code + 1)) << code;
    }
  }
}

TEST(Float8, RoundsToTheNearest) {
  ExpectNearest(&ToE4M3, 0x7e);
  ExpectNearest(&ToE5M2, 0x7b);
}

TEST(Float8, SaturatesAndKeepsNaN) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  for (const float large : {449.0f, 465.0f, 1e6f, kMax, kInfinity}) {
    EXPECT_EQ(ToE4M3(large).bits, 0x7e) << large;
    EXPECT_EQ(ToE4M3(-large).bits, 0xfe) << large;
  }
  for (const float large : {60000.0f, 61440.0f, 1e6f, kMax, kInfinity}) {
    EXPECT_EQ(ToE5M2(large).bits, 0x7b) << large;
    EXPECT_EQ(ToE5M2(-large).bits, 0xfb) << large;
  }
  EXPECT_EQ(ToE4M3(kTiny).bits, 0);
  EXPECT_EQ(ToE5M2(-kTiny).bits, 0x80);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(ToFloat(ToE4M3(nan))));
  EXPECT_TRUE(std::isnan(ToFloat(ToE5M2(nan))));
}

}  // namespace
}  // namespace plimsoll
