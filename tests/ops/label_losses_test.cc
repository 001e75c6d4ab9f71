// The losses of several labels and of numbers, and what is counted of them, by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/loss/squared_error.h"
#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Shape;

const double kNone = std::nan("");

TestTensor Floats(Shape shape, const std::vector<double>& values) {
  return Values(DType::kFloat32, shape, values);
}
TestTensor One(DType dtype = DType::kFloat32) { return Values(dtype, {}, {1}); }

// The sum of both parts of a moment.
double MomentOf(const TestTensor& moments, Moment moment) {
  return moments.at(moment) + moments.at(kMoments + moment);
}

TEST(LabelLosses, LogitsWithoutTargetsCarryNoLoss) {
  const TestTensor logits = NormalValues(DType::kFloat64, {2, 3}, 1, 2), one = One();
  const TestTensor dloss = One(DType::kFloat64);
  const TestTensor all = Floats({2, 3}, {1, 0, 0.25, 1, 0, 1});
  const TestTensor some = Floats({2, 3}, {1, 0, 0.25, kNone, kNone, kNone});
  const TestTensor row =
      Values(DType::kFloat64, {1, 3}, {logits.at(0), logits.at(1), logits.at(2)});
  const TestTensor of_row = Floats({1, 3}, {1, 0, 0.25});
  const char* const op = "binary_cross_entropy_with_logits";
  const auto wanted = RunOp(op, {&row, &one, &of_row}), got = RunOp(op, {&logits, &one, &some});
  EXPECT_EQ(got[0].at(0), wanted[0].at(0));
  EXPECT_EQ(got[1].at(0), wanted[1].at(0));
  const std::string backward = "binary_cross_entropy_with_logits_backward";
  const TestTensor full = RunOp(backward, {&logits, &one, &dloss, &all})[0];
  const TestTensor half = RunOp(backward, {&logits, &one, &dloss, &some})[0];
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(half.at(i), i < 3 ? full.at(i) : 0) << i;
}

TEST(LabelLosses, CountRowsAndLabels) {
  const TestTensor logits = Floats({4, 3}, {1, -1, 2, 0.5, 0.5, -2, -1, -1, -1, 3, 3, 3});
  const TestTensor targets = Floats({4, 3}, {1, 0, 1, 1, 0, 1, 0, 0.5, 0.75, kNone, kNone, kNone});
  const auto results = RunOp("count_labels", {&logits, &targets});
  EXPECT_EQ(results[0].at(0), 1);  // the first row
  EXPECT_EQ(results[1].at(0), 3);
  const std::vector<int> counts = {2, 0, 0, 1, 0, 1, 0, 2, 1, 0, 2, 0};
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(results[2].at(i), counts[i]) << i;
}

TEST(LabelLosses, SquaredErrorLeavesOutWhatHasNoTarget) {
  const TestTensor x = Floats({4}, {1, 2, 5, -1}), weight = Floats({}, {0.5});
  const TestTensor t = Floats({4}, {3, 2.5, kNone, -1.25});
  const auto results = RunOp("squared_error", {&x, &weight, &t});
  EXPECT_FLOAT_EQ(results[0].at(0), 0.5 * (4 + 0.25 + 0.0625));
  const double moments[kMoments] = {3, 2, 4.25, 6, 16.8125, 9.25, 4.3125, 2.75};
  for (int64_t k = 0; k < kMoments; ++k) {
    EXPECT_EQ(MomentOf(results[1], static_cast<Moment>(k)), moments[k]) << k;
  }
  const TestTensor dloss = Floats({}, {2});
  const TestTensor dx = RunOp("squared_error_backward", {&x, &weight, &t, &dloss})[0];
  const double slopes[] = {-4, -1, 0, 0.5};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(dx.at(i), slopes[i]) << i;
}

// A variance of 1/4 next to squares of 1e10: float32 has steps of 1024 there.
TEST(LabelLosses, MomentsKeepSmallDifferencesOfLargeSums) {
  constexpr int64_t kNumbers = 1000;
  TestTensor x({DType::kFloat32, {kNumbers}}), t({DType::kFloat32, {kNumbers}});
  for (int64_t i = 0; i < kNumbers; ++i) {
    x.set(i, 1e5 + (i % 2));
    t.set(i, 1e5 + (i % 4 < 2));
  }
  const TestTensor one = One();
  const TestTensor moments = RunOp("squared_error", {&x, &one, &t})[1];
  const double n = MomentOf(moments, kCountMoment), mean = MomentOf(moments, kMoment) / n;
  EXPECT_EQ(n, kNumbers);
  EXPECT_NEAR(MomentOf(moments, kSquareMoment) / n - mean * mean, 0.25, 0.05);
  // Parts of several such tensors add up without rounding.
  for (int64_t k = 0; k < kMoments; ++k) {
    const float upper = static_cast<float>(moments.at(k));
    float sum = 0;
    for (int rank = 0; rank < 64; ++rank) sum += upper;
    EXPECT_EQ(sum, 64.0 * upper) << k;
  }
}

TEST(LabelLosses, RefuseWhatDoesNotFit) {
  const TestTensor logits = NormalValues(DType::kFloat32, {2, 3}, 1), one = One();
  const TestTensor other = NormalValues(DType::kFloat32, {3, 2}, 1);
  ExpectInternalError([&] { RunOp("count_labels", {&logits, &other}); }, {"targets must be f32"});
  ExpectInternalError(
      [&] {
        RunOp("squared_error", {&logits, &one, &other});
      },
      {"targets must be f32"});
}

}  // namespace
}  // namespace plimsoll::ops
