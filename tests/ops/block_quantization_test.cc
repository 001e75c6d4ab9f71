#include "ops/optimizer/block_quantization.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace plimsoll::ops {
namespace {

const BlockQuantizer& Quantizer(bool with_sign) {
  return with_sign ? BlockQuantizer::Signed() : BlockQuantizer::Unsigned();
}

class BlockQuantization : public testing::TestWithParam<bool> {
 protected:
  const BlockQuantizer& quantizer() const { return Quantizer(GetParam()); }
  bool with_sign() const { return GetParam(); }

  // The error of the nearest code, found by trying all codes.
  double NearestError(float x) const {
    double least = 2;
    for (int code = 0; code < 256; ++code) {
      least = std::min(least, std::fabs(double{x} - quantizer().value(code)));
    }
    return least;
  }
};

TEST_P(BlockQuantization, CodesAscend) {
  for (int code = 1; code < 256; ++code) {
    EXPECT_LT(quantizer().value(code - 1), quantizer().value(code)) << code;
  }
  EXPECT_EQ(quantizer().value(255), 1);
  EXPECT_EQ(quantizer().value(with_sign() ? 127 : 0), 0);
}

// The midpoints of the decades' parts, as in the paper's figure for a few bits.
TEST_P(BlockQuantization, ValuesAreThoseOfThePaper) {
  const int zero = with_sign() ? 127 : 0;
  EXPECT_FLOAT_EQ(quantizer().value(zero + 1), with_sign() ? 0.55e-6f : 0.325e-6f);
  EXPECT_FLOAT_EQ(quantizer().value(zero + 2), with_sign() ? 0.325e-5f : 0.775e-6f);
  const int parts = with_sign() ? 64 : 128;
  EXPECT_FLOAT_EQ(quantizer().value(254), 1 - 0.45f / parts);
  if (with_sign()) {
    for (int i = 0; i <= 127; ++i)
      EXPECT_EQ(quantizer().value(127 - i), -quantizer().value(127 + i));
  }
}

TEST_P(BlockQuantization, EveryValueHasItsOwnCode) {
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(quantizer().CodeOf(quantizer().value(code)), code);
  }
}

// Around all boundaries, and at random magnitudes over all decades.
TEST_P(BlockQuantization, TakesTheNearestCode) {
  std::vector<float> samples = {0.0f, 1.0f, 1e-30f, std::numeric_limits<float>::denorm_min()};
  for (int code = 0; code < 255; ++code) {
    float x = (quantizer().value(code) + quantizer().value(code + 1)) / 2;
    for (int i = 0; i < 3; ++i) x = std::nextafter(x, -1.0f);
    for (int i = 0; i < 6; ++i) samples.push_back(x = std::nextafter(x, 1.0f));
  }
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-9, 0);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::pow(10.0f, exponent(random));
    samples.push_back(with_sign() && i % 2 == 0 ? -x : x);
  }
  for (float x : samples) {
    const uint8_t code = quantizer().CodeOf(x);
    const double error = std::fabs(double{x} - quantizer().value(code));
    if (!with_sign() && code == 1 && x > 0) continue;  // see NothingPositiveBecomesZero
    ASSERT_LE(error, NearestError(x) + 3e-7 * std::fabs(x)) << x;
  }
}

TEST_P(BlockQuantization, KeepsOrder) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> exponent(-9, 0);
  std::vector<float> samples;
  for (int i = 0; i < 5000; ++i) {
    samples.push_back(std::pow(10.0f, exponent(random)) * (with_sign() && i % 2 == 0 ? -1 : 1));
  }
  std::sort(samples.begin(), samples.end());
  for (size_t i = 1; i < samples.size(); ++i) {
    ASSERT_LE(quantizer().CodeOf(samples[i - 1]), quantizer().CodeOf(samples[i]));
  }
}

// Half a part of the value's decade: at most 5.6 % of the value at the end of the coarsest of the
// upper four decades, at most 0.7 % of the largest in absolute terms.
TEST_P(BlockQuantization, ErrorIsBounded) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 3e-4f);
  std::vector<float> x(200), back(200);
  std::vector<uint8_t> codes(200);
  for (float& value : x) value = with_sign() ? normal(random) : std::fabs(normal(random));
  const float scale = quantizer().Quantize(x.data(), 200, codes.data());
  float largest = 0;
  for (float value : x) largest = std::max(largest, std::fabs(value));
  EXPECT_EQ(scale, largest);
  quantizer().Dequantize(codes.data(), scale, 200, back.data());
  const double part = 0.9 / (with_sign() ? 64 : 128);
  for (int i = 0; i < 200; ++i) {
    EXPECT_LE(std::fabs(x[i] - back[i]), largest * part * 0.501) << i;
    const double magnitude = std::fabs(x[i]) / largest;
    if (magnitude < 1e-3) continue;
    // Decade d (0: [0.1, 1]) has parts of width 0.9 · 10^-d / 2^(6 − d), twice as many unsigned.
    const double decade = std::floor(-std::log10(magnitude));
    const double width = part * std::pow(10, -decade) * std::pow(2, decade);
    // Next to the boundary of a decade the coarser side may be nearer.
    EXPECT_LE(std::fabs(x[i] - back[i]) / largest, width * 2.6) << i;
  }
}

TEST_P(BlockQuantization, ZerosStayZero) {
  const std::vector<float> zeros(10, 0.0f);
  std::vector<uint8_t> codes(10, 77);
  std::vector<float> back(10, 1);
  EXPECT_EQ(quantizer().Quantize(zeros.data(), 10, codes.data()), 0);
  quantizer().Dequantize(codes.data(), 0, 10, back.data());
  EXPECT_EQ(back, zeros);
  // So does memory that is all zero.
  std::fill(codes.begin(), codes.end(), 0);
  quantizer().Dequantize(codes.data(), 0, 10, back.data());
  EXPECT_EQ(back, zeros);
}

TEST_P(BlockQuantization, WhatIsNotFiniteMakesTheBlockNaN) {
  for (float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x(10, 1.0f), back(10);
    std::vector<uint8_t> codes(10);
    x[4] = bad;
    const float scale = quantizer().Quantize(x.data(), 10, codes.data());
    quantizer().Dequantize(codes.data(), scale, 10, back.data());
    for (float value : back) EXPECT_TRUE(std::isnan(value));
  }
}

INSTANTIATE_TEST_SUITE_P(Sign, BlockQuantization, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Signed") : std::string("Unsigned");
});

// A second moment of zero with a non-zero first moment would give an update of m / eps.
TEST(BlockQuantizationOfSecondMoments, NothingPositiveBecomesZero) {
  for (float x : {1e-30f, 1e-10f, 1e-7f, 3e-7f}) {
    EXPECT_EQ(BlockQuantizer::Unsigned().CodeOf(x), 1) << x;
  }
  EXPECT_EQ(BlockQuantizer::Unsigned().CodeOf(0), 0);
}

}  // namespace
}  // namespace plimsoll::ops
