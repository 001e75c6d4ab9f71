// Losses of preferences on rows of documents, with values written out.
#include "ops/loss/preference_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

// Two rows of 8 tokens. Row 0: a pair of 3 and 2 tokens, then padding. Row 1: a pair that fills it.
// Sums of counted log-probabilities: −3 (2 targets), −4 (1); −1.5 (3), −2 (2). References: −2, −5;
// −1, −1.
struct Rows {
  TestTensor logp = Values(DType::kFloat64, {2, 8},
                           {-1, -2, 9, -4, 9, 9, 9, 9,  //
                            -0.5, -0.5, -0.5, 9, -1, 9, -1, 9});
  TestTensor targets = Values(DType::kInt32, {2, 8},
                              {1, 1, -100, 1, -100, -100, -100, -100,  //
                               1, 1, 1, -100, 1, -100, 1, -100});
  TestTensor positions = Values(DType::kInt32, {2, 8},
                                {0, 1, 2, 0, 1, 0, 1, 2,  //
                                 0, 1, 2, 3, 0, 1, 2, 3});
  TestTensor reference = Values(DType::kFloat32, {2, 8},
                                {-2, 7, 7, -5, 7, 7, 7, 7,  //
                                 -1, 7, 7, 7, -1, 7, 7, 7});
  TestTensor scale = Values(DType::kFloat32, {}, {0.5});
  TestTensor dloss = Values(DType::kFloat64, {}, {2});

  std::vector<TestTensor> Loss(const Attributes& attributes) const {
    return RunOp("preference_loss", {&logp, &targets, &positions, &reference, &scale}, attributes,
                 1);
  }
  TestTensor Gradient(const Attributes& attributes) const {
    return RunOp("preference_loss_backward",
                 {&logp, &targets, &positions, &reference, &scale, &dloss}, attributes, 1)[0];
  }
};

Attributes Of(const char* loss, double beta, double smoothing = 0, double sft = 0) {
  return {{"loss", std::string(loss)},
          {"beta", beta},
          {"label_smoothing", smoothing},
          {"sft_weight", sft}};
}

double Softplus(double x) { return std::log1p(std::exp(x)); }

// Ratios: −1 and 1; −0.5 and −1. Differences −2 and 0.5.
TEST(PreferenceLoss, IsDpoOfTheDocumentsOfARow) {
  const Rows rows;
  const std::vector<TestTensor> out = rows.Loss(Of("dpo", 0.5));
  EXPECT_NEAR(out[0].at(0), 0.5 * (Softplus(1) + Softplus(-0.25)), 1e-12);
  const std::vector<double> sums = {2, 0.5 * -1.5, 0.5 * 0, 0.5 * -1.5, 1, -4.5, -6};
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(out[i + 1].at(0), sums[i], 1e-12) << i;
}

TEST(PreferenceLoss, GivesEachCountedTokenTheGradientOfItsDocument) {
  const Rows rows;
  const double first = -0.5 / (1 + std::exp(-1.0)), second = -0.5 / (1 + std::exp(0.25));
  ExpectNear(
      rows.Gradient(Of("dpo", 0.5)),
      {first, first, 0, -first, 0, 0, 0, 0, second, second, second, 0, -second, 0, -second, 0},
      1e-12, "dlogp");
}

TEST(PreferenceLoss, IsIpoOfMeansPerToken) {
  const Rows rows;
  const double first = -0.5 - 1 - 1, second = -0.5 / 3 + 0.5 - 1;  // 1/(2β) = 1
  EXPECT_NEAR(rows.Loss(Of("ipo", 0.5))[0].at(0), 0.5 * (first * first + second * second), 1e-12);
  ExpectNear(rows.Gradient(Of("ipo", 0.5)),
             {first, first, 0, -2 * first, 0, 0, 0, 0, second * 2 / 3, second * 2 / 3,
              second * 2 / 3, 0, -second, 0, -second, 0},
             1e-12, "dlogp");
}

TEST(PreferenceLoss, AddsTheMeanOfTheChosenTokens) {
  const Rows rows;
  const double dpo = rows.Loss(Of("dpo", 0.5))[0].at(0);
  EXPECT_NEAR(rows.Loss(Of("dpo", 0.5, 0, 3))[0].at(0), dpo + 0.5 * 3 * (1.5 + 0.5), 1e-12);
}

TEST(PreferenceLoss, SmoothsLabels) {
  const Rows rows;
  const double right = Softplus(1) + Softplus(-0.25), wrong = Softplus(-1) + Softplus(0.25);
  EXPECT_NEAR(rows.Loss(Of("dpo", 0.5, 0.2))[0].at(0), 0.5 * (0.8 * right + 0.2 * wrong), 1e-12);
}

TEST(PreferenceLoss, StaysFiniteFarFromZero) {
  Rows rows;
  rows.logp.set(0, -1e4);
  const std::vector<TestTensor> out = rows.Loss(Of("dpo", 1));
  EXPECT_NEAR(out[0].at(0), 0.5 * (1e4 + 1 + Softplus(-0.5)), 1e-6);
  EXPECT_TRUE(std::isfinite(rows.Gradient(Of("dpo", 1)).at(0)));
}

TEST(PreferenceLoss, OfRowsWithoutPairsIsZero) {
  Rows rows;
  for (int64_t i = 0; i < 16; ++i) rows.targets.set(i, -100);
  const std::vector<TestTensor> out = rows.Loss(Of("dpo", 1, 0, 1));
  EXPECT_EQ(out[0].at(0), 0);
  EXPECT_EQ(out[1].at(0), 0);
  ExpectNear(rows.Gradient(Of("dpo", 1)), std::vector<double>(16, 0.0), 0, "dlogp");
}

}  // namespace
}  // namespace plimsoll::ops
