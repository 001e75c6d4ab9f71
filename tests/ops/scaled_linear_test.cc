// 8-bit codes and their products against exact arithmetic on the codes, and how much of a product
// of random numbers they keep.
#include "ops/linear/scaled_linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/linear/code_scale.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_golden.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Attributes As(DType dtype) { return {{"dtype", std::string(graph::Name(dtype))}}; }

// transposed, codes, scale, sums
std::vector<TestTensor> Quantized(const TestTensor& x, DType dtype) {
  const TestTensor largest = RunOp("largest_magnitude", {&x})[0];
  return RunOp("quantize", {&x, &largest, nullptr}, As(dtype));
}

TEST(LargestMagnitude, IsThatOfTheBits) {
  const auto of = [](DType dtype, const std::vector<double>& values) {
    const TestTensor x = Values(dtype, {static_cast<int64_t>(values.size())}, values);
    return RunOp("largest_magnitude", {&x})[0].at(0);
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    EXPECT_EQ(of(dtype, {1, -2.5, 0.5}), 2.5);
    EXPECT_EQ(of(dtype, {-0.0, 0}), 0);
    EXPECT_EQ(of(dtype, {}), 0);
    EXPECT_EQ(of(dtype, {1, -kInfinity}), kInfinity);
    EXPECT_TRUE(std::isnan(of(dtype, {kInfinity, std::nan(""), 1})));
  }
  EXPECT_EQ(of(DType::kFloat32, {0, -1e-45}), static_cast<double>(1e-45f));
}

TEST(Quantize, KnownValues) {
  const TestTensor x = Values(DType::kBFloat16, {3, 2}, {1, -2, 0.5, 7, 0, 0.01171875});
  const std::vector<TestTensor> q = Quantized(x, DType::kFloat8E4M3);
  EXPECT_EQ(q[0].type().ToString(), "e4m3[2,16]");
  EXPECT_EQ(q[1].type().ToString(), "e4m3[3,2]");
  EXPECT_EQ(q[2].at(0), 1 / 64.0);  // 448 / 7 = 64
  const std::vector<double> codes = {64, -128, 32, 448, 0, 0.75};
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(q[1].at(i), codes[static_cast<size_t>(i)]) << i;
    EXPECT_EQ(q[0].at(i % 2 * 16 + i / 2), codes[static_cast<size_t>(i)]) << i;
  }
  for (int64_t padded = 3; padded < 16; ++padded) {
    EXPECT_EQ(q[0].at(padded), 0);
    EXPECT_EQ(q[0].at(16 + padded), 0);
  }
  EXPECT_EQ(q[3].at(0), 1.5);
  EXPECT_EQ(q[3].at(1), 5.01171875);
}

TEST(Quantize, ZerosHaveTheScaleOne) {
  const TestTensor x = Values(DType::kBFloat16, {1, 2}, {0, -0.0});
  const std::vector<TestTensor> q = Quantized(x, DType::kFloat8E5M2);
  EXPECT_EQ(q[2].at(0), 1);
  EXPECT_EQ(q[1].at(0), 0);
}

TEST(Quantize, TheSmallestNumbersHaveAFiniteScale) {
  const TestTensor x = Values(DType::kFloat32, {1, 2}, {1e-45, 0});
  const std::vector<TestTensor> q = Quantized(x, DType::kFloat8E4M3);
  EXPECT_TRUE(std::isfinite(q[2].at(0)));
  EXPECT_TRUE(std::isfinite(q[1].at(0)));
}

// Wherever the rows of codes end.
TEST(TransposeCodes, HasTheBitsOfQuantize) {
  const graph::Shape shapes[] = {{1, 1}, {16, 16}, {17, 5}, {33, 48}, {2, 3, 7}, {130, 131}};
  for (const graph::Shape& shape : shapes) {
    for (const DType dtype : {DType::kFloat8E4M3, DType::kFloat8E5M2}) {
      const std::vector<TestTensor> q = Quantized(NormalValues(DType::kBFloat16, shape, 1), dtype);
      const TestTensor transposed = RunOp("transpose_codes", {&q[1]})[0];
      EXPECT_TRUE(SameBits(transposed, q[0])) << q[1].type().ToString();
    }
  }
}

// The scale of a part is that of the whole, also where another part alone is not finite.
TEST(Quantize, PartsHaveTheCodesOfTheWhole) {
  for (const double worst : {3.0, 448.5, kInfinity, std::nan("")}) {
    TestTensor x = NormalValues(DType::kBFloat16, {6, 40}, 1);
    x.set(7, worst);
    const std::vector<TestTensor> whole = Quantized(x, DType::kFloat8E4M3);
    const TestTensor largest = RunOp("largest_magnitude", {&x})[0];
    for (const int64_t part : {0, 1}) {
      TestTensor own({DType::kBFloat16, {120}});
      for (int64_t i = 0; i < 120; ++i) own.set(i, x.at(part * 120 + i));
      const std::vector<TestTensor> q =
          RunOp("quantize", {&own, &largest, nullptr}, As(DType::kFloat8E4M3), 2,
                {false, true, true, false});
      EXPECT_TRUE(SameBits(q[2], whole[2])) << worst;
      for (int64_t i = 0; i < 120; ++i) {
        const double code = whole[1].at(part * 120 + i);
        EXPECT_TRUE(q[1].at(i) == code || (std::isnan(q[1].at(i)) && std::isnan(code))) << i;
      }
    }
  }
}

// A product with codes of infinity or NaN must show it everywhere.
TEST(Quantize, WhatIsNotFiniteMakesProductsNaN) {
  for (const double bad : {kInfinity, -kInfinity, std::nan("")}) {
    TestTensor x = NormalValues(DType::kBFloat16, {16, 32}, 1);
    x.set(77, bad);
    const TestTensor weight = NormalValues(DType::kBFloat16, {48, 32}, 2);
    const std::vector<TestTensor> a = Quantized(x, DType::kFloat8E5M2);
    const std::vector<TestTensor> b = Quantized(weight, DType::kFloat8E4M3);
    EXPECT_TRUE(std::isnan(a[2].at(0)));
    const TestTensor y = RunOp("scaled_linear", {&a[1], &b[1], &a[2], &b[2], nullptr, nullptr},
                               As(DType::kFloat32))[0];
    for (int64_t i = 0; i < y.size(); ++i) ASSERT_TRUE(std::isnan(y.at(i))) << i;
  }
}

// Numbers beyond the largest magnitude that it is given become the largest code.
TEST(Quantize, TakesTheLargestMagnitudeThatItIsGiven) {
  const TestTensor x = Values(DType::kBFloat16, {1, 3}, {1, -7, 64});
  const TestTensor largest = Values(DType::kFloat32, {}, {7});
  const std::vector<TestTensor> q =
      RunOp("quantize", {&x, &largest, nullptr}, As(DType::kFloat8E4M3));
  EXPECT_EQ(q[2].at(0), 1 / 64.0);
  EXPECT_EQ(q[1].at(0), 64);
  EXPECT_EQ(q[1].at(1), -448);
  EXPECT_EQ(q[1].at(2), 448);
}

double Norm(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return sum;
}

// Signal to noise of a product in decibels, against the product of the numbers before they were
// quantized.
double Decibels(const TestTensor& a, const TestTensor& b, DType type_a, DType type_b) {
  const int64_t m = a.type().shape.dim(0), n = b.type().shape.dim(0), k = a.type().shape.dim(1);
  const std::vector<TestTensor> qa = Quantized(a, type_a), qb = Quantized(b, type_b);
  const TestTensor y = RunOp("scaled_linear", {&qa[1], &qb[1], &qa[2], &qb[2], nullptr, nullptr},
                             As(DType::kFloat32))[0];
  std::vector<double> signal, noise;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a.at(i * k + p) * b.at(j * k + p);
      signal.push_back(sum);
      noise.push_back(y.at(i * n + j) - sum);
    }
  }
  return 10 * std::log10(Norm(signal) / Norm(noise));
}

TEST(ScaledLinear, KeepsEnoughOfAProduct) {
  const TestTensor x = NormalValues(DType::kBFloat16, {64, 512}, 1);
  const TestTensor weight = NormalValues(DType::kBFloat16, {48, 512}, 2, 0.02);
  EXPECT_GE(Decibels(x, weight, DType::kFloat8E4M3, DType::kFloat8E4M3), 28);
  EXPECT_GE(Decibels(x, weight, DType::kFloat8E5M2, DType::kFloat8E4M3), 24);
}

// Every element against the sum in double of products of the codes, all of which are exact.
void ExpectExact(int64_t m, int64_t n, int64_t k, DType result) {
  const std::vector<TestTensor> a =
      Quantized(NormalValues(DType::kBFloat16, {m, k}, 1), DType::kFloat8E5M2);
  const std::vector<TestTensor> b =
      Quantized(NormalValues(DType::kBFloat16, {n, k}, 2), DType::kFloat8E4M3);
  const TestTensor y =
      RunOp("scaled_linear", {&a[1], &b[1], &a[2], &b[2], nullptr, nullptr}, As(result))[0];
  const double scale = a[2].at(0) * b[2].at(0);
  const double rounding = result == DType::kFloat32    ? 0
                          : result == DType::kBFloat16 ? 0x1p-8
                                                       : 0x1p-11;
  for (int64_t i = 0; i < m; i += 3) {
    for (int64_t j = 0; j < n; j += 7) {
      double sum = 0, magnitude = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double product = scale * a[1].at(i * k + p) * b[1].at(j * k + p);
        sum += product;
        magnitude += std::fabs(product);
      }
      const double error = static_cast<double>(k + 4) * 0x1p-24 * magnitude;
      ASSERT_NEAR(y.at(i * n + j), sum, error + rounding * (std::fabs(sum) + error));
    }
  }
}

TEST(ScaledLinear, IsTheExactProductRoundedOnce) {
  for (const DType result : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    ExpectExact(13, 48, 1600, result);
    ExpectExact(1, 1600, 16, result);
  }
}

TEST(ScaledLinear, LongSumsStayExact) { ExpectExact(3, 16, 32768, DType::kFloat32); }

// As PyTorch makes codes and multiplies them on a GPU.
struct ScaledGolden : GoldenTest {
  using GoldenTest::Read;
};

TEST(ScaledLinear, EqualsPyTorch) {
  for (const DType dtype : {DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    SCOPED_TRACE(graph::Name(dtype));
    Golden golden = ScaledGolden::Read("scaled_product_" + std::string(graph::Name(dtype)));
    const auto values = [&](const std::string& name) {
      return Values(DType::kBFloat16, golden[name].shape, golden[name].values);
    };
    const std::vector<TestTensor> x = Quantized(values("x"), dtype);
    const std::vector<TestTensor> weight = Quantized(values("weight"), DType::kFloat8E4M3);
    const auto expect_equal = [&](const TestTensor& got, const std::string& name) {
      ASSERT_EQ(got.size(), static_cast<int64_t>(golden[name].values.size())) << name;
      for (int64_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got.at(i), golden[name].values[static_cast<size_t>(i)]) << name << " " << i;
      }
    };
    expect_equal(x[1], "codes");
    expect_equal(weight[1], "weight_codes");
    expect_equal(x[2], "scale");
    expect_equal(weight[2], "weight_scale");
    const TestTensor y =
        RunOp("scaled_linear", {&x[1], &weight[1], &x[2], &weight[2], nullptr, nullptr},
              As(DType::kBFloat16))[0];
    const std::vector<double>& want = golden["y"].values;
    ASSERT_EQ(y.size(), static_cast<int64_t>(want.size()));
    for (int64_t i = 0; i < y.size(); ++i) {
      // Sums in another order may round to the other neighbour.
      ASSERT_NEAR(y.at(i), want[static_cast<size_t>(i)], 0x1p-7 * std::fabs(y.at(i)) + 1e-3) << i;
    }
  }
}

TEST(ScaledLinear, SaysWhatIsNoProduct) {
  EXPECT_EQ(WhyNotScaled({1, 16, 16}), "");
  EXPECT_EQ(WhyNotScaled({1, 16, 24}), "24 inputs, no multiple of 16");
  EXPECT_EQ(WhyNotScaled({1, 10, 16}), "10 outputs, no multiple of 16");
  EXPECT_EQ(WhyNotScaled({16, 16, 16, DType::kFloat8E5M2, DType::kFloat8E5M2}),
            "both operands in e5m2");
}

}  // namespace
}  // namespace plimsoll::ops
