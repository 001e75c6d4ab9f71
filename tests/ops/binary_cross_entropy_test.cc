// Binary cross-entropy of logits, by hand.
#include "ops/loss/binary_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/graph/expect_program.h"
#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

constexpr const char* kOp = "binary_cross_entropy_with_logits";
constexpr const char* kBackward = "binary_cross_entropy_with_logits_backward";

TestTensor One(DType dtype = DType::kFloat32) { return Values(dtype, {}, {1}); }

Attributes Target(double target) { return {{"target", target}}; }

double LossOf(const TestTensor& logits, double target) {
  const TestTensor one = One();
  return RunOp(kOp, {&logits, &one}, Target(target))[0].at(0);
}

// Over several chunks.
TEST(BinaryCrossEntropy, IsTheCrossEntropyOfTwoClasses) {
  constexpr int64_t kLogits = 9000;
  const TestTensor logits = NormalValues(DType::kFloat64, {kLogits}, 1, 2);
  TestTensor pairs({DType::kFloat64, {kLogits, 2}}), labels({DType::kInt32, {kLogits}});
  const TestTensor weight = Values(DType::kFloat32, {}, {0.25}), dloss = One(DType::kFloat64);
  for (const int label : {0, 1}) {
    for (int64_t i = 0; i < kLogits; ++i) {
      pairs.set(2 * i, 0);
      pairs.set(2 * i + 1, logits.at(i));
      labels.set(i, label);
    }
    const Attributes plain = {{"label_smoothing", 0.0}};
    const auto rows = RunOp("cross_entropy", {&pairs, &labels, &weight}, plain);
    const auto loss = RunOp(kOp, {&logits, &weight}, Target(label));
    EXPECT_NEAR(loss[0].at(0), rows[0].at(0), 1e-12 * rows[0].at(0));
    const TestTensor want =
        RunOp("cross_entropy_backward", {&pairs, &labels, &weight, &rows[1], &dloss}, plain)[0];
    const TestTensor got = RunOp(kBackward, {&logits, &weight, &dloss}, Target(label))[0];
    for (int64_t i = 0; i < kLogits; ++i) ASSERT_NEAR(got.at(i), want.at(2 * i + 1), 1e-15) << i;
  }
}

TEST(BinaryCrossEntropy, SmoothsBetweenBothLabels) {
  const TestTensor logits = NormalValues(DType::kFloat64, {3, 5}, 1, 2);
  EXPECT_NEAR(LossOf(logits, 0.9), 0.9 * LossOf(logits, 1) + 0.1 * LossOf(logits, 0), 1e-13);
}

TEST(BinaryCrossEntropy, TakesTargetsOfEachLogit) {
  const TestTensor logits = NormalValues(DType::kFloat32, {3, 5}, 1, 2), one = One();
  TestTensor targets({DType::kFloat32, {3, 5}});
  for (int64_t i = 0; i < targets.size(); ++i) targets.set(i, 0.75);
  EXPECT_EQ(RunOp(kOp, {&logits, &one, &targets})[0].at(0), LossOf(logits, 0.75));
  // One of them is another.
  targets.set(7, 0.25);
  EXPECT_NEAR(RunOp(kOp, {&logits, &one, &targets})[0].at(0),
              LossOf(logits, 0.75) + 0.5 * logits.at(7), 1e-5);
}

// Neither overflows, and gradients that are small keep their digits.
TEST(BinaryCrossEntropy, IsPreciseInBothTails) {
  EXPECT_EQ(LossOf(Values(DType::kFloat32, {2}, {200, -200}), 1), 200);
  EXPECT_EQ(LossOf(Values(DType::kFloat32, {2}, {200, -200}), 0), 200);
  const TestTensor logits = Values(DType::kFloat32, {2}, {30, -30});
  const TestTensor one = One(), dloss = One();
  const double tail = std::exp(-30.0);
  const TestTensor real = RunOp(kBackward, {&logits, &one, &dloss}, Target(1))[0];
  EXPECT_NEAR(real.at(0), -tail, 1e-6 * tail);
  EXPECT_EQ(real.at(1), -1);
  const TestTensor fake = RunOp(kBackward, {&logits, &one, &dloss}, Target(0))[0];
  EXPECT_EQ(fake.at(0), 1);
  EXPECT_NEAR(fake.at(1), tail, 1e-6 * tail);
}

TEST(BinaryCrossEntropy, ShowsNan) {
  const TestTensor logits = Values(DType::kFloat32, {3}, {1, std::nan(""), 2});
  EXPECT_TRUE(std::isnan(LossOf(logits, 1)));
  EXPECT_TRUE(std::isnan(LossOf(logits, 0)));
}

TEST(BinaryCrossEntropy, CountsLogitsOnTheRightSide) {
  const TestTensor logits = Values(DType::kFloat32, {5}, {3, 0.25, 0, -1, 2}), one = One();
  const auto right = [&](double target) {
    return RunOp(kOp, {&logits, &one}, Target(target))[1].at(0);
  };
  EXPECT_EQ(right(1), 3);
  EXPECT_EQ(right(0.9), 3);
  EXPECT_EQ(right(0), 2);
  EXPECT_EQ(right(0.1), 2);
  const TestTensor targets = Values(DType::kFloat32, {5}, {1, 0, 0, 1, 0.75});
  EXPECT_EQ(RunOp(kOp, {&logits, &one, &targets})[1].at(0), 3);
  EXPECT_EQ(RunOp(kOp, {&logits, &one, &targets})[2].at(0), 5);
}

// Rows with a negative label are as if they were not there, even where their logits are NaN.
TEST(BinaryCrossEntropy, LeavesOutRowsWithoutALabel) {
  constexpr int64_t kRows = 5, kRow = 2000;  // over several chunks
  const TestTensor logits = NormalValues(DType::kFloat32, {kRows, kRow}, 1, 2);
  const TestTensor labels = Values(DType::kInt32, {kRows}, {0, -1, 7, 0, -100});
  const TestTensor weight = Values(DType::kFloat32, {}, {0.25}), dloss = One();
  TestTensor with = NormalValues(DType::kFloat32, {kRows, kRow}, 1, 2),
             counted({DType::kFloat32, {3, kRow}});
  int64_t at = 0;
  for (int64_t i = 0; i < logits.size(); ++i) {
    if (labels.at(i / kRow) < 0) {
      with.set(i, std::nan(""));
    } else {
      counted.set(at++, logits.at(i));
    }
  }
  const auto got = RunOp(kOp, {&with, &weight, nullptr, &labels}, Target(1));
  const auto want = RunOp(kOp, {&counted, &weight}, Target(1));
  EXPECT_NEAR(got[0].at(0), want[0].at(0), 1e-6 * want[0].at(0));
  EXPECT_EQ(got[1].at(0), want[1].at(0));
  EXPECT_EQ(got[2].at(0), 3 * kRow);
  const TestTensor gradient =
      RunOp(kBackward, {&with, &weight, &dloss, nullptr, &labels}, Target(1))[0];
  const TestTensor all = RunOp(kBackward, {&logits, &weight, &dloss}, Target(1))[0];
  for (int64_t i = 0; i < logits.size(); ++i) {
    ASSERT_EQ(gradient.at(i), labels.at(i / kRow) < 0 ? 0 : all.at(i)) << i;
  }
}

TEST(BinaryCrossEntropy, RefusesWhatDoesNotFit) {
  const TestTensor logits = NormalValues(DType::kFloat32, {2, 3}, 1), one = One();
  const TestTensor other = NormalValues(DType::kFloat32, {3, 2}, 1);
  for (const double target : {-0.1, 1.1, std::nan("")}) {
    ExpectInternalError([&] { LossOf(logits, target); }, {kOp, "within [0, 1]"});
  }
  ExpectInternalError([&] { RunOp(kOp, {&logits, &one, &other}); }, {"'targets' must be f32[2,3]"});
  ExpectInternalError([&] { RunOp(kOp, {&logits, &one}); }, {"either targets or"});
  ExpectInternalError(
      [&] {
        RunOp(kOp, {&logits, &one, &logits}, Target(1));
      },
      {"either targets or"});
  const TestTensor labels = Values(DType::kInt32, {3}, {0, 1, -1});
  ExpectInternalError(
      [&] {
        RunOp(kOp, {&logits, &one, nullptr, &labels}, Target(1));
      },
      {"'labels' must be i32[2]"});
}

TEST(BinaryCrossEntropy, GivesTheOpItsTarget) {
  graph::Program program("p");
  graph::Builder g(program);
  const auto input = [&](const char* name, graph::TensorType type) {
    return g.Persistent(name, graph::Role::kInput, type);
  };
  const graph::Value logits = input("logits", {DType::kBFloat16, {2, 4, 1}});
  const graph::Value weight = input("weight", {DType::kFloat32, {}});
  const graph::Value targets = input("targets", {DType::kFloat32, {2, 4, 1}});
  BinaryCrossEntropyWithLogits(g, logits, weight, 0.9, "real");
  BinaryCrossEntropyOfTargets(g, logits, weight, targets, "each");
  graph::ExpectProgram(program, R"(program p
  tensor %logits: bf16[2,4,1] input persistent
  tensor %weight: f32[] input persistent
  tensor %targets: f32[2,4,1] input persistent
forward
  %real: f32[], %real.right: i32[], %real.counted: i32[] = binary_cross_entropy_with_logits(%logits, %weight) {target=0.9}
  %each: f32[], %each.right: i32[], %each.counted: i32[] = binary_cross_entropy_with_logits(%logits, %weight, %targets)
)");
}

}  // namespace
}  // namespace plimsoll::ops
