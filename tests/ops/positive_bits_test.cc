// A batch norm with a residual says where its result is positive, in every type, and its gradient
// is that of the ReLU and the norm.
#include "ops/norms/positive_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Shape;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
// Bytes, bytes of which the last is not full, and less than one.
constexpr int64_t kChannels[] = {1, 4, 7, 8, 12, 16, 33};

struct Norm {
  TestTensor x, residual, mean, variance, weight, bias;
};

// Channel 0 is the residual alone, whose values have all kinds: zeros, what is not finite, and the
// least numbers.
Norm MakeNorm(DType dtype, int64_t channels) {
  const DType wide = graph::ComputeType(dtype);
  Norm norm{NormalValues(dtype, {3, 5, channels}, 1),  NormalValues(dtype, {3, 5, channels}, 2),
            NormalValues(wide, {1, channels}, 3, 0.1), NormalValues(wide, {1, channels}, 4),
            NormalValues(wide, {channels}, 5),         NormalValues(wide, {channels}, 6)};
  for (int64_t i = 0; i < channels; ++i) norm.variance.set(i, 0.5 + std::abs(norm.variance.at(i)));
  norm.weight.set(0, 0);
  norm.bias.set(0, 0);
  const double least = dtype == DType::kFloat16    ? 0x1p-24
                       : dtype == DType::kBFloat16 ? 0x1p-133
                       : dtype == DType::kFloat32  ? 0x1p-149
                                                   : 0x1p-1074;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> kinds = {
      0.0, -0.0, least, -least, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
  for (size_t i = 0; i < kinds.size(); ++i) {
    norm.residual.set(static_cast<int64_t>(i) * channels, kinds[i]);
  }
  return norm;
}

TEST(PositiveBits, AreThoseOfTheStoredResult) {
  for (const DType dtype : kTypes) {
    for (const int64_t channels : kChannels) {
      for (const bool relu : {false, true}) {
        SCOPED_TRACE(std::string(graph::Name(dtype)) + " " + std::to_string(channels));
        const Norm n = MakeNorm(dtype, channels);
        const auto got =
            RunOp("batch_norm", {&n.x, &n.mean, &n.variance, &n.weight, &n.bias, &n.residual},
                  {{"eps", 1e-5}, {"relu", relu}});
        ASSERT_EQ(got[1].type(), PositiveBits(n.x.type().shape));
        const int64_t bytes = PositiveBytes(channels);
        for (int64_t i = 0; i < n.x.type().shape.rows() * bytes * 8; ++i) {
          const int64_t row = i / (bytes * 8), channel = i % (bytes * 8);
          const bool positive = channel < channels && !(got[0].at(row * channels + channel) <= 0);
          EXPECT_EQ(got[1].as<uint8_t>()[i / 8] >> i % 8 & 1, positive ? 1 : 0)
              << "row " << row << " channel " << channel;
        }
      }
    }
  }
}

// What rounds to 0 is not positive.
TEST(PositiveBits, AreTakenAfterRounding) {
  const TestTensor x = Values(DType::kFloat16, {2, 1}, {1, -1});
  const TestTensor residual = Values(DType::kFloat16, {2, 1}, {0, 0});
  const TestTensor zero = Values(DType::kFloat32, {1, 1}, {0});
  const TestTensor one = Values(DType::kFloat32, {1, 1}, {1});
  const TestTensor none = Values(DType::kFloat32, {1}, {0});
  for (const auto& [bias, positive] : {std::pair{0x1p-25, 0}, {0x1.1p-25, 1}}) {
    const TestTensor small = Values(DType::kFloat32, {1}, {bias});
    const auto got = RunOp("batch_norm", {&x, &zero, &one, &none, &small, &residual},
                           {{"eps", 1e-5}, {"relu", true}});
    EXPECT_EQ(got[1].at(0), positive);
    EXPECT_EQ(got[0].at(0) > 0, positive == 1);
  }
}

TEST(PositiveBits, GiveTheGradientOfTheReluAndTheNorm) {
  for (const DType dtype : kTypes) {
    for (const int64_t channels : kChannels) {
      SCOPED_TRACE(std::string(graph::Name(dtype)) + " " + std::to_string(channels));
      const Norm n = MakeNorm(dtype, channels);
      const TestTensor dy = NormalValues(dtype, n.x.type().shape, 7);
      const graph::Attributes eps = {{"eps", 1e-5}};
      const auto forward =
          RunOp("batch_norm", {&n.x, &n.mean, &n.variance, &n.weight, &n.bias, &n.residual},
                {{"eps", 1e-5}, {"relu", true}});
      const TestTensor masked = RunOp("relu_backward", {&forward[0], &dy})[0];
      const auto parts =
          RunOp("batch_norm_backward",
                {&masked, &n.x, &n.mean, &n.variance, &n.weight, nullptr, nullptr, nullptr},
                {{"eps", 1e-5}, {"through_statistics", true}}, 2, {true, false, false, true, true});
      ExpectSameBits(RunOp("batch_norm_residual_backward",
                           {&dy, &forward[1], &n.x, &n.mean, &n.variance, &n.weight, nullptr,
                            nullptr, nullptr},
                           eps),
                     {masked, parts[0], parts[3], parts[4]});
    }
  }
}

TEST(PositiveBits, OfAnotherShapeAreRefused) {
  const TestTensor dy = NormalValues(DType::kFloat32, {2, 9}, 1);
  const TestTensor mean = NormalValues(DType::kFloat32, {1, 9}, 2);
  const TestTensor weight = NormalValues(DType::kFloat32, {9}, 3);
  const TestTensor bits({DType::kUInt8, {2, 1}});
  ExpectInternalError(
      [&] {
        RunOp("batch_norm_residual_backward",
              {&dy, &bits, &dy, &mean, &mean, &weight, nullptr, nullptr, nullptr}, {{"eps", 1e-5}});
      },
      {"batch_norm_residual_backward", "positive must be u8[2,2]"});
}

}  // namespace
}  // namespace plimsoll::ops
