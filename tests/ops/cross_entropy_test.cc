// The loss of a classifier and its counts, by hand.
#include "ops/loss/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

TestTensor Labels(const std::vector<double>& values) {
  return Values(DType::kInt32, {static_cast<int64_t>(values.size())}, values);
}

TEST(CrossEntropy, IsTheMeanOfRowsThatHaveALabel) {
  const TestTensor logits = Values(DType::kFloat32, {3, 2}, {0, 0, std::log(3.0), 0, 5, 9});
  const TestTensor labels = Labels({0, 1, -1});
  const TestTensor scale = Values(DType::kFloat32, {}, {0.5});
  const auto loss = [&](double smoothing) {
    return RunOp("cross_entropy", {&logits, &labels, &scale}, {{"label_smoothing", smoothing}})[0]
        .at(0);
  };
  EXPECT_NEAR(loss(0), (std::log(2) + std::log(4)) / 2, 1e-6);
  // Half of ε goes to each class: −log p of the second row are log 4/3 and log 4.
  const double uniform = std::log(2) + (std::log(4.0 / 3) + std::log(4)) / 2;
  EXPECT_NEAR(loss(0.2), 0.8 * (std::log(2) + std::log(4)) / 2 + 0.2 * uniform / 2, 1e-6);
}

// With two labels, loss and gradient are the weighted means of those with either.
TEST(CrossEntropy, TwoLabelsShareTheLoss) {
  constexpr int kClasses = 7;
  const graph::Attributes smoothed = {{"label_smoothing", 0.1}};
  const TestTensor logits = NormalValues(DType::kFloat64, {1, kClasses}, 1);
  const TestTensor one = Values(DType::kFloat32, {}, {1}), dloss = Values(DType::kFloat64, {}, {1});
  const TestTensor a = Values(DType::kInt32, {1}, {2}), b = Values(DType::kInt32, {1}, {5});
  const TestTensor none = Values(DType::kInt32, {1}, {-1});
  const TestTensor weight = Values(DType::kFloat32, {1}, {0.75});
  const auto of = [&](const TestTensor& labels) {
    return RunOp("cross_entropy", {&logits, &labels, &one}, smoothed);
  };
  const auto both = RunOp("cross_entropy", {&logits, &a, &one, &b, &weight}, smoothed);
  EXPECT_NEAR(both[0].at(0), 0.75 * of(a)[0].at(0) + 0.25 * of(b)[0].at(0), 1e-14);
  const TestTensor lse = both[1];
  const auto gradient = [&](const TestTensor& labels) {
    return RunOp("cross_entropy_backward", {&logits, &labels, &one, &lse, &dloss}, smoothed)[0];
  };
  const TestTensor mixed =
      RunOp("cross_entropy_backward", {&logits, &a, &one, &lse, &dloss, &b, &weight}, smoothed)[0];
  const TestTensor of_a = gradient(a), of_b = gradient(b);
  for (int c = 0; c < kClasses; ++c) {
    EXPECT_NEAR(mixed.at(c), 0.75 * of_a.at(c) + 0.25 * of_b.at(c), 1e-14);
  }
  // A row without a second label has one.
  EXPECT_EQ(RunOp("cross_entropy", {&logits, &a, &one, &none, &weight}, smoothed)[0].at(0),
            of(a)[0].at(0));
}

TEST(CrossEntropy, ARowWithoutALabelHasNoGradient) {
  const TestTensor logits = NormalValues(DType::kFloat32, {2, 3}, 1);
  const TestTensor labels = Labels({-100, 2});
  const TestTensor one = Values(DType::kFloat32, {}, {1});
  const TestTensor lse =
      RunOp("cross_entropy", {&logits, &labels, &one}, {{"label_smoothing", 0.1}})[1];
  const TestTensor gradient = RunOp("cross_entropy_backward", {&logits, &labels, &one, &lse, &one},
                                    {{"label_smoothing", 0.1}})[0];
  double sum = 0;
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_EQ(gradient.at(c), 0);
    sum += gradient.at(3 + c);
  }
  EXPECT_NEAR(sum, 0, 1e-6);
  EXPECT_LT(gradient.at(5), 0);
}

TEST(CrossEntropy, RefusesALabelBeyondTheClasses) {
  const TestTensor logits = NormalValues(DType::kFloat32, {1, 3}, 1);
  const TestTensor labels = Labels({3});
  EXPECT_NE(MessageOf<InternalError>([&] {
              RunOp("count_top_k", {&logits, &labels}, {{"k", 1}});
            })
                .value_or("")
                .find("a target of 3 among 3 classes"),
            std::string::npos);
}

TEST(CountTopK, OfEqualLogitsTheFirstComesFirst) {
  const TestTensor logits = Values(DType::kFloat32, {4, 3}, {1, 1, 0, 1, 1, 0, 3, 2, 1, 0, 0, NAN});
  const auto right = [&](const std::vector<double>& of_rows, int64_t k) {
    const TestTensor labels = Labels(of_rows);
    const std::vector<TestTensor> counts = RunOp("count_top_k", {&logits, &labels}, {{"k", k}});
    return std::pair(counts[0].at(0), counts[1].at(0));
  };
  EXPECT_EQ(right({0, 1, 0, -1}, 1), std::pair(2.0, 3.0));
  EXPECT_EQ(right({0, 1, 2, -1}, 2), std::pair(2.0, 3.0));
  EXPECT_EQ(right({2, 2, 2, 2}, 3), std::pair(3.0, 4.0));  // NaN is never right
}

}  // namespace
}  // namespace plimsoll::ops
