// The loss of segmentation, by hand.
#include "ops/loss/dice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/graph/expect_program.h"
#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

// As DiceLoss gives them to the op.
Attributes Attribute(const DiceOptions& options) {
  return {{"include_background", options.include_background},
          {"squared_pred", options.squared_pred},
          {"smooth_nr", options.smooth_nr},
          {"smooth_dr", options.smooth_dr},
          {"lambda_dice", options.lambda_dice},
          {"lambda_ce", options.lambda_ce}};
}

TestTensor Labels(graph::Shape shape, const std::vector<double>& values) {
  return Values(DType::kInt32, shape, values);
}

TestTensor One(DType dtype = DType::kFloat32) { return Values(dtype, {}, {1}); }

double LossOf(const TestTensor& logits, const TestTensor& labels, const DiceOptions& options) {
  const TestTensor one = One();
  return RunOp("dice_loss", {&logits, &labels, &one}, Attribute(options))[0].at(0);
}

// p is (1/2, 1/2), (1/4, 3/4): I = 1/2, 3/4; P = 3/4, 5/4; G = 1, 1.
TEST(Dice, IsTheMeanOfClasses) {
  const TestTensor logits = Values(DType::kFloat64, {1, 2, 2}, {0, 0, 0, std::log(3.0)});
  const TestTensor labels = Labels({1, 2}, {0, 1});
  const double background = 1 - 2 * 0.5 / 1.75, foreground = 1 - 2 * 0.75 / 2.25;
  DiceOptions options{.smooth_nr = 0, .smooth_dr = 0};
  EXPECT_NEAR(LossOf(logits, labels, options), (background + foreground) / 2, 1e-14);
  options.include_background = false;
  EXPECT_NEAR(LossOf(logits, labels, options), foreground, 1e-14);
  options.squared_pred = true;
  EXPECT_NEAR(LossOf(logits, labels, options), 1 - 2 * 0.75 / (1 + 1.0 / 4 + 9.0 / 16), 1e-14);
}

// Samples add up, each with a loss of its own, and weighted.
TEST(Dice, AddsSamples) {
  const TestTensor both = NormalValues(DType::kFloat64, {2, 5, 3}, 1);
  const TestTensor labels = Labels({2, 5}, {0, 1, 2, 2, 1, 0, 0, 0, -1, 1});
  const TestTensor weight = Values(DType::kFloat32, {}, {0.25});
  const DiceOptions options{.lambda_ce = 1};
  double sum = 0;
  for (int64_t sample = 0; sample < 2; ++sample) {
    TestTensor logits({DType::kFloat64, {1, 5, 3}}), own({DType::kInt32, {1, 5}});
    for (int64_t i = 0; i < 15; ++i) logits.set(i, both.at(sample * 15 + i));
    for (int64_t i = 0; i < 5; ++i) own.set(i, labels.at(sample * 5 + i));
    sum += LossOf(logits, own, options);
  }
  EXPECT_NEAR(RunOp("dice_loss", {&both, &labels, &weight}, Attribute(options))[0].at(0), sum / 4,
              1e-14);
}

// Across chunks of voxels.
TEST(Dice, IsTheCrossEntropyAlone) {
  constexpr int64_t kVoxels = 5000, kClasses = 3, kIgnored = 1000;
  const TestTensor logits = NormalValues(DType::kFloat64, {1, kVoxels, kClasses}, 1, 2);
  TestTensor labels({DType::kInt32, {1, kVoxels}});
  for (int64_t v = 0; v < kVoxels; ++v) labels.set(v, v % 5 == 4 ? -1 : v * 7 % kClasses);
  const TestTensor scale = Values(DType::kFloat32, {}, {0x1p-12}), one = One();
  const TestTensor dloss = One(DType::kFloat64);
  const Attributes alone = Attribute({.lambda_dice = 0, .lambda_ce = 1});
  const Attributes plain = {{"label_smoothing", 0.0}};
  const auto dice = RunOp("dice_loss", {&logits, &labels, &one}, alone);
  const auto rows = RunOp("cross_entropy", {&logits, &labels, &scale}, plain);
  constexpr double kFactor = 4096.0 / (kVoxels - kIgnored);
  EXPECT_NEAR(dice[0].at(0), kFactor * rows[0].at(0), 1e-13);
  const TestTensor got =
      RunOp("dice_loss_backward", {&logits, &labels, &one, &dice[1], &dloss}, alone)[0];
  const TestTensor want =
      RunOp("cross_entropy_backward", {&logits, &labels, &scale, &rows[1], &dloss}, plain)[0];
  for (int64_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got.at(i), kFactor * want.at(i), 1e-16);
}

TEST(Dice, OfPerfectPredictionsIsNothing) {
  const TestTensor logits = Values(DType::kFloat32, {1, 2, 3}, {99, 0, 0, 0, 0, 99});
  const TestTensor labels = Labels({1, 2}, {0, 2});
  // Class 1, which does not occur, has smooth_nr / smooth_dr.
  EXPECT_NEAR(LossOf(logits, labels, {.lambda_ce = 1}), 0, 1e-6);
}

TEST(Dice, IgnoresVoxelsWithoutALabel) {
  constexpr int64_t kVoxels = 7, kClasses = 3;
  const TestTensor logits = NormalValues(DType::kFloat64, {1, kVoxels, kClasses}, 1);
  const TestTensor labels = Labels({1, kVoxels}, {0, -1, 2, 1, -100, 1, 0});
  const TestTensor one = One(), dloss = One(DType::kFloat64);
  const Attributes attributes = Attribute({.lambda_ce = 1});
  const auto forward = RunOp("dice_loss", {&logits, &labels, &one}, attributes);
  const TestTensor gradient =
      RunOp("dice_loss_backward", {&logits, &labels, &one, &forward[1], &dloss}, attributes)[0];
  TestTensor others({DType::kFloat64, {1, kVoxels - 2, kClasses}});
  for (int64_t v = 0, kept = 0; v < kVoxels; ++v) {
    for (int64_t c = 0; c < kClasses; ++c) {
      const int64_t i = v * kClasses + c;
      EXPECT_EQ(gradient.at(i) == 0, labels.at(v) < 0) << i;
      if (labels.at(v) >= 0) others.set(kept * kClasses + c, logits.at(i));
    }
    kept += labels.at(v) >= 0;
  }
  EXPECT_NEAR(LossOf(others, Labels({1, kVoxels - 2}, {0, 2, 1, 1, 0}), {.lambda_ce = 1}),
              forward[0].at(0), 1e-14);
}

TEST(Dice, OfASampleWithoutVoxelsHasNoCrossEntropy) {
  const TestTensor logits = NormalValues(DType::kFloat32, {1, 2, 3}, 1);
  const TestTensor labels = Labels({1, 2}, {-1, -1});
  EXPECT_EQ(LossOf(logits, labels, {.lambda_ce = 1}), 0);
}

TEST(Dice, RefusesALabelBeyondTheClasses) {
  const TestTensor logits = NormalValues(DType::kFloat32, {1, 2, 3}, 1);
  const TestTensor labels = Labels({1, 2}, {0, 3});
  EXPECT_NE(MessageOf<InternalError>([&] { LossOf(logits, labels, {}); })
                .value_or("")
                .find("a label of 3 among 3 classes"),
            std::string::npos);
}

TEST(Dice, RefusesOtherNumbersOfClasses) {
  for (const int64_t classes : {int64_t{1}, kMostDiceClasses + 1}) {
    const TestTensor logits = NormalValues(DType::kFloat32, {1, 2, classes}, 1);
    EXPECT_TRUE(MessageOf<InternalError>([&] { LossOf(logits, Labels({1, 2}, {0, 0}), {}); }));
  }
}

TEST(Dice, GivesTheOpItsOptions) {
  graph::Program program("p");
  graph::Builder g(program);
  const auto input = [&](const char* name, graph::TensorType type) {
    return g.Persistent(name, graph::Role::kInput, type);
  };
  const graph::Value logits = input("logits", {DType::kBFloat16, {2, 4, 5, 3}});
  const graph::Value labels = input("labels", {DType::kInt32, {2, 4, 5}});
  const graph::Value weight = input("weight", {DType::kFloat32, {}});
  DiceLoss(g, logits, labels, weight,
           {.include_background = false, .smooth_nr = 0, .lambda_ce = 0.5}, "loss");
  graph::ExpectProgram(program, R"(program p
  tensor %logits: bf16[2,4,5,3] input persistent
  tensor %labels: i32[2,4,5] input persistent
  tensor %weight: f32[] input persistent
forward
  %loss: f32[], %loss.sums: f32[2,3,3] = dice_loss(%logits, %labels, %weight) {include_background=false, lambda_ce=0.5, lambda_dice=1.0, smooth_dr=1e-05, smooth_nr=0.0, squared_pred=false}
)");
}

}  // namespace
}  // namespace plimsoll::ops
