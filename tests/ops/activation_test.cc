// Activations at the ends of their range: NaN, tails, small arguments.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

// The gradient is dy there, as in PyTorch.
TEST(Relu, KeepsNan) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    const TestTensor x = Values(dtype, {4}, {kNan, -1, 0, 2}),
                     dy = Values(dtype, {4}, {3, 4, 5, 6});
    const TestTensor y = RunOp("relu", {&x})[0];
    EXPECT_TRUE(std::isnan(y.at(0)));
    const TestTensor dx = RunOp("relu_backward", {&y, &dy})[0];
    for (int64_t i = 0; i < 4; ++i) {
      if (i > 0) {
        EXPECT_EQ(y.at(i), i == 3 ? 2 : 0);
      }
      EXPECT_EQ(dx.at(i), i == 0 || i == 3 ? dy.at(i) : 0);
    }
  }
}

// The smallest number above 0.
double Least(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 0x1p-1074;
    case DType::kBFloat16:
      return 0x1p-133;
    case DType::kFloat16:
      return 0x1p-24;
    default:
      return 0x1p-149;
  }
}

// Zero and NaN take the slope, as in PyTorch. A product that vanishes keeps the sign of x.
TEST(LeakyRelu, SlopesWhereXIsNotPositive) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    const double least = Least(dtype);
    const TestTensor x = Values(dtype, {6}, {kNan, -2, 0, 2, least, -least}),
                     dy = Values(dtype, {6}, {4, 8, 12, 16, 20, 24});
    const graph::Attributes slope = {{"slope", 0.25}};
    const TestTensor y = RunOp("leaky_relu", {&x}, slope)[0];
    EXPECT_TRUE(std::isnan(y.at(0)));
    EXPECT_EQ(y.at(1), -0.5);
    EXPECT_EQ(y.at(2), 0);
    EXPECT_EQ(y.at(3), 2);
    const TestTensor dx = RunOp("leaky_relu_backward", {&y, &dy}, slope)[0];
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(dx.at(i), i == 3 || i == 4 ? dy.at(i) : dy.at(i) / 4) << i;
    }
  }
}

TEST(LeakyRelu, RefusesSlopesOutsideZeroToOne) {
  const TestTensor x = Values(DType::kFloat32, {1}, {1});
  for (double slope : {0.0, 1.0, -0.1, std::numeric_limits<double>::quiet_NaN()}) {
    ExpectInternalError(
        [&] {
          RunOp("leaky_relu", {&x}, {{"slope", slope}});
        },
        {"leaky_relu", "above 0 and below 1"});
  }
}

// Where x is small, where the polynomial ends, and where the result is 1.
TEST(Softcap, StaysWithinItsCap) {
  const TestTensor x = Values(DType::kFloat32, {6}, {0, 1e-6, -3, 60, 3e38, -3e38});
  const TestTensor y = RunOp("softcap", {&x}, {{"cap", 30.0}})[0];
  for (int64_t i = 0; i < x.size(); ++i) {
    const double expected = 30 * std::tanh(x.at(i) / 30);
    EXPECT_NEAR(y.at(i), expected, 4e-7 * std::fabs(expected)) << x.at(i);
  }
  EXPECT_THROW(RunOp("softcap", {&x}, {{"cap", 0.0}}), InternalError);
}

TEST(Tanh, IsPreciseOverItsRange) {
  std::vector<double> arguments = {0, 1e-30, -1e-30, 3e38, -3e38};
  for (double x = -12; x < 12; x += 0.00137) arguments.push_back(static_cast<float>(x));
  const TestTensor x = Values(DType::kFloat32, {static_cast<int64_t>(arguments.size())}, arguments);
  const TestTensor y = RunOp("tanh", {&x})[0];
  for (int64_t i = 0; i < x.size(); ++i) {
    const double expected = std::tanh(x.at(i));
    ASSERT_LE(std::fabs(y.at(i) - expected), 2e-7 * std::fabs(expected)) << x.at(i);
  }
}

}  // namespace
}  // namespace plimsoll::ops
