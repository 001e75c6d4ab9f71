// The dynamic loss scale against torch.amp.GradScaler (testdata/grad_scaler.txt, made by
// make_grad_scaler_table.py), and Plimsoll's additions: a floor, and counts of skipped steps.
#include "ops/optimizer/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/graph/expect_program.h"
#include "tests/ops/interpreter.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::Builder;
using graph::DType;
using graph::Program;
using graph::Role;
using graph::Value;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A program with an update's decision about the scale and nothing else.
Program Decision(const LossScaleOptions& options) {
  Program program("decision");
  Builder g(program);
  g.set_phase(graph::Phase::kUpdate);
  const graph::TensorType real{DType::kFloat32, {}}, integer{DType::kInt32, {}};
  const Value norm = g.Persistent("norm", Role::kInput, real);
  const Value scale = g.Persistent("loss_scale", Role::kState, real);
  const Value tracker = g.Persistent("growth_tracker", Role::kState, integer);
  const Value skipped = g.Persistent("skipped", Role::kState, {DType::kInt32, {2}});
  const Value metric = g.Persistent("grad_norm", Role::kMetric, real);
  EmitLossScaleStep(g, norm, scale, tracker, skipped, metric, options);
  return program;
}

TEST(LossScale, Program) {
  graph::ExpectProgram(Decision({}), R"(program decision
  tensor %norm: f32[] input persistent
  tensor %loss_scale: f32[] state persistent
  tensor %growth_tracker: i32[] state persistent
  tensor %skipped: i32[2] state persistent
  tensor %grad_norm: f32[] metric persistent
update
  %grad_norm, %loss_scale_step.inverse: f32[], %loss_scale_step.apply: i32[], %loss_scale, %growth_tracker, %skipped = loss_scale_step(%norm, %loss_scale, %growth_tracker, %skipped) {backoff_factor=0.5, dynamic=true, growth_factor=2.0, growth_interval=2000, min_scale=1.0}
)");
}

// Keeps the state between steps.
class Scaler {
 public:
  Scaler(double init_scale, const LossScaleOptions& options)
      : program_(Decision(options)), pool_(1), interpreter_(program_, pool_) {
    interpreter_.Set("loss_scale", std::vector<double>{init_scale});
    interpreter_.Set("growth_tracker", std::vector<double>{0});
    interpreter_.Set("skipped", std::vector<double>{0, 0});
  }

  // Makes a step whose scaled gradients have that norm. Returns whether it is applied.
  bool Step(double norm) {
    interpreter_.Set("norm", std::vector<double>{norm});
    interpreter_.Run();
    return interpreter_.Get("loss_scale_step.apply")[0] == 1;
  }

  double scale() { return interpreter_.Get("loss_scale")[0]; }
  double tracker() { return interpreter_.Get("growth_tracker")[0]; }
  double grad_norm() { return interpreter_.Get("grad_norm")[0]; }
  double inverse() { return interpreter_.Get("loss_scale_step.inverse")[0]; }
  std::vector<double> skipped() { return interpreter_.Get("skipped"); }

 private:
  Program program_;
  ThreadPool pool_;
  Interpreter interpreter_;
};

TEST(LossScale, AgreesWithGradScaler) {
  std::ifstream file("tests/amp/testdata/grad_scaler.txt");
  std::string word;
  std::unique_ptr<Scaler> scaler;
  int cases = 0, steps = 0;
  double skipped = 0;
  while (file >> word) {
    if (word == "case") {
      double init_scale;
      LossScaleOptions options;
      file >> init_scale >> options.growth_factor >> options.backoff_factor >>
          options.growth_interval;
      options.min_scale = 1e-30;  // GradScaler has no floor
      scaler = std::make_unique<Scaler>(init_scale, options);
      ++cases;
      skipped = 0;
      continue;
    }
    int stepped, tracker;
    float scale;
    file >> stepped >> scale >> tracker;
    ASSERT_TRUE(file) << "step " << steps;
    ASSERT_EQ(scaler->Step(std::stod(word)), stepped == 1) << "case " << cases << " step " << steps;
    ASSERT_EQ(scaler->scale(), scale) << "case " << cases << " step " << steps;
    ASSERT_EQ(scaler->tracker(), tracker) << "case " << cases << " step " << steps;
    skipped += stepped == 0;
    ASSERT_EQ(scaler->skipped()[0], skipped);
    ++steps;
  }
  EXPECT_EQ(cases, 35);
  EXPECT_EQ(steps, 575);
}

// The step itself uses the previous scale.
TEST(LossScale, UnscalesByTheScaleOfTheStep) {
  Scaler scaler(1024, {.growth_interval = 1});
  EXPECT_TRUE(scaler.Step(512));
  EXPECT_EQ(scaler.grad_norm(), 0.5);
  EXPECT_EQ(scaler.inverse(), 1.0 / 1024);
  EXPECT_EQ(scaler.scale(), 2048);
  EXPECT_TRUE(scaler.Step(512));
  EXPECT_EQ(scaler.grad_norm(), 0.25);
  EXPECT_EQ(scaler.inverse(), 1.0 / 2048);
  EXPECT_FALSE(scaler.Step(kInfinity));
  EXPECT_EQ(scaler.grad_norm(), kInfinity);
  EXPECT_FALSE(scaler.Step(kNan));
  EXPECT_TRUE(std::isnan(scaler.grad_norm()));
}

TEST(LossScale, HasAFloor) {
  Scaler scaler(10, {.min_scale = 3});
  EXPECT_FALSE(scaler.Step(kInfinity));
  EXPECT_EQ(scaler.scale(), 5);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(scaler.Step(kNan));
    EXPECT_EQ(scaler.scale(), 3);
  }
}

TEST(LossScale, CountsSkippedStepsInAllAndInARow) {
  Scaler scaler(65536, {});
  const std::vector<double> norms = {1, kInfinity, kNan, 1, kInfinity, 0, 0};
  const std::vector<std::vector<double>> expected = {{0, 0}, {1, 1}, {2, 2}, {2, 0},
                                                     {3, 1}, {3, 0}, {3, 0}};
  for (size_t i = 0; i < norms.size(); ++i) {
    EXPECT_EQ(scaler.Step(norms[i]), std::isfinite(norms[i]));
    EXPECT_EQ(scaler.skipped(), expected[i]) << i;
  }
}

TEST(LossScale, StaticNeverChangesButStillSkips) {
  Scaler scaler(1000, {.dynamic = false, .growth_interval = 1});
  for (double norm : {1.0, kInfinity, 2.0, kNan, 3.0}) {
    EXPECT_EQ(scaler.Step(norm), std::isfinite(norm));
    EXPECT_EQ(scaler.scale(), 1000);
    EXPECT_EQ(scaler.tracker(), 0);
  }
  EXPECT_EQ(scaler.skipped(), (std::vector<double>{2, 0}));
}

// A loss beyond its limit skips the step without changing the scale.
TEST(LossScale, ALossBeyondItsLimitSkipsTheStepAlone) {
  Program program = Decision({.growth_interval = 3});
  Builder g(program);
  const graph::TensorType real{DType::kFloat32, {}};
  const Value loss = g.Persistent("loss", Role::kInput, real);
  const Value limit = g.Persistent("limit", Role::kInput, real);
  std::vector<Value>& inputs = program.mutable_nodes().back().inputs;
  inputs.insert(inputs.end(), {loss, limit});
  ThreadPool pool(1);
  Interpreter interpreter(program, pool);
  interpreter.Set("loss_scale", std::vector<double>{1024});
  interpreter.Set("growth_tracker", std::vector<double>{0});
  interpreter.Set("skipped", std::vector<double>{0, 0});
  interpreter.Set("limit", std::vector<double>{2});
  const auto step = [&](double norm, double loss_now) {
    interpreter.Set("norm", std::vector<double>{norm});
    interpreter.Set("loss", std::vector<double>{loss_now});
    interpreter.Run();
    return interpreter.Get("loss_scale_step.apply")[0] == 1;
  };
  EXPECT_TRUE(step(1, 2));
  EXPECT_FALSE(step(1, 2.5));
  EXPECT_EQ(interpreter.Get("growth_tracker")[0], 2);
  EXPECT_EQ(interpreter.Get("skipped"), (std::vector<double>{1, 1}));
  EXPECT_FALSE(step(1, kNan));
  EXPECT_EQ(interpreter.Get("loss_scale")[0], 2048);
  EXPECT_FALSE(step(kInfinity, 1));
  EXPECT_EQ(interpreter.Get("loss_scale")[0], 1024);
  EXPECT_EQ(interpreter.Get("skipped"), (std::vector<double>{3, 3}));
  EXPECT_TRUE(step(1, 1));
  EXPECT_EQ(interpreter.Get("skipped"), (std::vector<double>{3, 0}));
}

TEST(LossScale, RefusesWhatIsNoStateOrNoScale) {
  ExpectInternalError([] { Decision({.growth_factor = 0.5}); }, {"growth_factor"});
  ExpectInternalError([] { Decision({.backoff_factor = 1}); }, {"backoff_factor"});
  ExpectInternalError([] { Decision({.growth_interval = 0}); }, {"growth_interval"});
  ExpectInternalError([] { Decision({.min_scale = 0}); }, {"min_scale"});
  ExpectInternalError(
      [] {
        Program program = graph::Parse(R"(program p
  tensor %n: i32[] input persistent
  tensor %s: i32[2] input persistent
  tensor %x: f32[4] input persistent
forward
  %norm: f32[] = sum(%x)
)");
        Builder g(program);
        const Value norm = program.Require("norm");
        EmitLossScaleStep(g, norm, norm, program.Require("n"), program.Require("s"),
                          graph::kNoTensor, {});
      },
      {"loss_scale_step", "'norm'", "not persistent"});
}

}  // namespace
}  // namespace plimsoll::ops
