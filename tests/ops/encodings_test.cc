#include "ops/encodings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "ops/dynamic_codes.h"

namespace plimsoll::ops {
namespace {

// Every row of the table.
class Encodings : public testing::TestWithParam<Encoding> {
 protected:
  // A tensor of these numbers; what `codes` and `scales` held before must not matter.
  struct Stored {
    std::vector<std::byte> codes, scales;
  };
  Stored Encode(const std::vector<float>& numbers) const {
    const graph::Shape shape{static_cast<int64_t>(numbers.size())};
    const auto bytes = [](const graph::TensorType& type) {
      return std::vector<std::byte>(static_cast<size_t>(type.bytes()), std::byte{77});
    };
    Stored stored{bytes(GetParam().CodesType(shape)), bytes(GetParam().ScalesType(shape))};
    GetParam().encode(numbers.data(), std::ssize(numbers), stored.codes.data(),
                      stored.scales.data());
    return stored;
  }
  std::vector<float> Decode(const Stored& stored, size_t count) const {
    std::vector<float> numbers(count, 77);
    GetParam().decode(stored.codes.data(), stored.scales.data(), std::ssize(numbers),
                      numbers.data());
    return numbers;
  }
  std::vector<float> Back(const std::vector<float>& numbers) const {
    return Decode(Encode(numbers), numbers.size());
  }

  // Two full blocks and a part of one, each of another magnitude.
  std::vector<float> Normal() const {
    const int64_t block = GetParam().block;
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 3e-4f);
    std::vector<float> numbers(static_cast<size_t>(2 * block + block / 3));
    for (size_t i = 0; i < numbers.size(); ++i) {
      const float x =
          std::ldexp(normal(random), 20 * (static_cast<int>(i) / static_cast<int>(block)));
      numbers[i] = GetParam().is_signed ? x : std::fabs(x);
    }
    return numbers;
  }
};

TEST_P(Encodings, HasAScaleForEachBlockAlsoIfItIsNotFull) {
  const Encoding& encoding = GetParam();
  const auto scales = [&](int64_t n) { return encoding.ScalesType({n}).shape.elements(); };
  EXPECT_EQ(scales(0), 0);
  EXPECT_EQ(scales(1), 1);
  EXPECT_EQ(scales(encoding.block), 1);
  EXPECT_EQ(scales(encoding.block + 1), 2);
  EXPECT_EQ(encoding.ScalesType({2, encoding.block}).shape, (graph::Shape{2}));
  EXPECT_EQ(encoding.ScalesType({1}).dtype, encoding.scales);
  EXPECT_EQ(encoding.CodesType({3, 5}).dtype, encoding.codes);
}

TEST_P(Encodings, NumbersComeBackWithinTheStatedError) {
  const std::vector<float> numbers = Normal(), back = Back(numbers);
  const auto block = static_cast<size_t>(GetParam().block);
  double worst = 0;
  for (size_t begin = 0; begin < numbers.size(); begin += block) {
    const size_t end = std::min(begin + block, numbers.size());
    double largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(double{numbers[i]}));
    for (size_t i = begin; i < end; ++i) {
      const double error = std::fabs(double{numbers[i]} - back[i]) / largest;
      EXPECT_LE(error, GetParam().error) << i;
      worst = std::max(worst, error);
    }
  }
  EXPECT_GT(worst, GetParam().error / 2);  // the bound is one
}

TEST_P(Encodings, TheLargestOfABlockComesBackExactly) {
  std::vector<float> numbers = Normal();
  for (size_t i = 5; i < numbers.size(); i += static_cast<size_t>(GetParam().block)) {
    numbers[i] =
        7 * std::ldexp(1.1f, 20 * static_cast<int>(i / static_cast<size_t>(GetParam().block)));
    EXPECT_EQ(Back(numbers)[i], numbers[i]) << i;
  }
}

// A block that is not full gets the codes and the scale of numbers on their own, and nothing beyond
// them is touched.
TEST_P(Encodings, ABlockDependsOnItsNumbersAlone) {
  const std::vector<float> numbers = Normal();
  const auto block = static_cast<size_t>(GetParam().block);
  const std::vector<float> last(numbers.begin() + static_cast<ptrdiff_t>(2 * block), numbers.end());
  const std::vector<float> all = Back(numbers), alone = Back(last);
  EXPECT_TRUE(
      std::equal(alone.begin(), alone.end(), all.begin() + static_cast<ptrdiff_t>(2 * block)));

  std::vector<std::byte> codes(block * sizeof(float), std::byte{77}), scale(8, std::byte{77});
  GetParam().encode(last.data(), 3, codes.data(), scale.data());
  const auto untouched = [](const std::vector<std::byte>& bytes, int64_t from) {
    return std::all_of(bytes.begin() + from, bytes.end(),
                       [](std::byte b) { return b == std::byte{77}; });
  };
  EXPECT_TRUE(untouched(codes, GetParam().CodesType({3}).bytes()));
  EXPECT_TRUE(untouched(scale, GetParam().ScalesType({3}).bytes()));
}

TEST_P(Encodings, ZerosStayZero) {
  const std::vector<float> zeros(10, 0.0f);
  Stored stored = Encode(zeros);
  EXPECT_EQ(Decode(stored, 10), zeros);
  // So does memory that is all zero.
  std::ranges::fill(stored.codes, std::byte{0});
  std::ranges::fill(stored.scales, std::byte{0});
  EXPECT_EQ(Decode(stored, 10), zeros);
  // And a zero among others.
  EXPECT_EQ(Back({1, 0, 0.5f})[1], 0);
}

TEST_P(Encodings, WhatIsNotFiniteMakesItsBlockNaN) {
  const auto block = static_cast<size_t>(GetParam().block);
  for (float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> numbers(2 * block + 10, 1.0f);
    numbers[block + 4] = bad;
    const std::vector<float> back = Back(numbers);
    for (size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_EQ(std::isnan(back[i]), i / block == 1) << i;
    }
  }
}

// The smallest numbers divide by each other, and the largest don't overflow.
TEST_P(Encodings, TakesNumbersOfAllMagnitudes) {
  for (float scale : {std::numeric_limits<float>::denorm_min(), 1e-40f, 1e-30f, 1e38f,
                      std::numeric_limits<float>::max()}) {
    const std::vector<float> numbers = {scale, scale / 2, 0}, back = Back(numbers);
    EXPECT_EQ(back[0], scale);
    EXPECT_LE(std::fabs(back[1] / scale - numbers[1] / scale), GetParam().error) << scale;
    EXPECT_EQ(back[2], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Encodings, testing::ValuesIn(kEncodings),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(EncodingTable, NamesEachRowOnce) {
  std::set<std::string_view> names;
  for (const Encoding& encoding : kEncodings) names.insert(encoding.name);
  EXPECT_EQ(names.size(), std::size(kEncodings));
}

// The values and the search of dynamic8, with a sign and without.
class Dynamic8 : public testing::TestWithParam<bool> {
 protected:
  bool is_signed() const { return GetParam(); }
  const DynamicCodes<int32_t>& codes() const {
    static constexpr auto kSigned = MakeDynamicCodes<true, int32_t>();
    static constexpr auto kUnsigned = MakeDynamicCodes<false, int32_t>();
    return is_signed() ? kSigned : kUnsigned;
  }
  float value(int code) const { return codes().values[static_cast<size_t>(code)]; }
  int Nearest(float x) const {
    return is_signed() ? codes().Nearest<true>(x) : codes().Nearest<false>(x);
  }

  // The error of the nearest code, found by trying all codes.
  double NearestError(float x) const {
    double least = 2;
    for (int code = 0; code < 256; ++code) {
      least = std::min(least, std::fabs(double{x} - value(code)));
    }
    return least;
  }
};

TEST_P(Dynamic8, CodesAscend) {
  for (int code = 1; code < 256; ++code) EXPECT_LT(value(code - 1), value(code)) << code;
  EXPECT_EQ(value(255), 1);
  EXPECT_EQ(value(is_signed() ? 127 : 0), 0);
}

// The midpoints of the decades' parts, as in the paper's figure for a few bits.
TEST_P(Dynamic8, ValuesAreThoseOfThePaper) {
  const int zero = is_signed() ? 127 : 0;
  EXPECT_FLOAT_EQ(value(zero + 1), is_signed() ? 0.55e-6f : 0.325e-6f);
  EXPECT_FLOAT_EQ(value(zero + 2), is_signed() ? 0.325e-5f : 0.775e-6f);
  const int parts = is_signed() ? 64 : 128;
  EXPECT_FLOAT_EQ(value(254), 1 - 0.45f / parts);
  if (is_signed()) {
    for (int i = 0; i <= 127; ++i) EXPECT_EQ(value(127 - i), -value(127 + i));
  }
}

TEST_P(Dynamic8, EveryValueHasItsOwnCode) {
  for (int code = 0; code < 256; ++code) EXPECT_EQ(Nearest(value(code)), code);
}

// Around all boundaries, and at random magnitudes over all decades.
TEST_P(Dynamic8, TakesTheNearestCode) {
  std::vector<float> samples = {0.0f, 1.0f, 1e-30f, std::numeric_limits<float>::denorm_min()};
  for (int code = 0; code < 255; ++code) {
    float x = (value(code) + value(code + 1)) / 2;
    for (int i = 0; i < 3; ++i) x = std::nextafter(x, -1.0f);
    for (int i = 0; i < 6; ++i) samples.push_back(x = std::nextafter(x, 1.0f));
  }
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-9, 0);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::pow(10.0f, exponent(random));
    samples.push_back(is_signed() && i % 2 == 0 ? -x : x);
  }
  for (float x : samples) {
    const int code = Nearest(x);
    const double error = std::fabs(double{x} - value(code));
    if (!is_signed() && code == 1 && x > 0) continue;  // see NothingPositiveBecomesZero
    ASSERT_LE(error, NearestError(x) + 3e-7 * std::fabs(x)) << x;
  }
}

TEST_P(Dynamic8, KeepsOrder) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> exponent(-9, 0);
  std::vector<float> samples;
  for (int i = 0; i < 5000; ++i) {
    samples.push_back(std::pow(10.0f, exponent(random)) * (is_signed() && i % 2 == 0 ? -1 : 1));
  }
  std::sort(samples.begin(), samples.end());
  for (size_t i = 1; i < samples.size(); ++i) {
    ASSERT_LE(Nearest(samples[i - 1]), Nearest(samples[i]));
  }
}

// Half a part of the value's decade: at most 5.6 % of the value at the end of the coarsest of the
// upper four decades.
TEST_P(Dynamic8, ErrorIsSmallerForSmallNumbers) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> exponent(-3, 0);
  const double part = 0.9 / (is_signed() ? 64 : 128);
  for (int i = 0; i < 5000; ++i) {
    const float x = std::pow(10.0f, exponent(random));
    // Decade d (0: [0.1, 1]) has parts of width 0.9 · 10^-d / 2^(6 − d), twice as many unsigned.
    const double decade = std::floor(-std::log10(double{x}));
    const double width = part * std::pow(10, -decade) * std::pow(2, decade);
    // Next to the boundary of a decade the coarser side may be nearer.
    EXPECT_LE(std::fabs(x - value(Nearest(x))), width * 2.6) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Sign, Dynamic8, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Signed") : std::string("Unsigned");
});

// A second moment of zero with a non-zero first moment would give an update of m / eps.
TEST(Dynamic8Unsigned, NothingPositiveBecomesZero) {
  constexpr auto kCodes = MakeDynamicCodes<false, uint8_t>();
  for (float x : {1e-30f, 1e-10f, 1e-7f, 3e-7f}) EXPECT_EQ(kCodes.Nearest<false>(x), 1) << x;
  for (float x : {0.0f, -0.0f, -1.0f, -1e30f, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(kCodes.Nearest<false>(x), 0) << x;
  }
}

}  // namespace
}  // namespace plimsoll::ops
