// Activations at the ends of their range: NaN, tails, small arguments.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/ops/op_runner.h"

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

// Where x is small, where the polynomial ends, and where the result is 1.
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
