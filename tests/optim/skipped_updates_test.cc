// Updates that a gate leaves out, on the device, because a step diverges.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "optim/update.h"
#include "tests/graph/expect_program.h"
#include "tests/ops/interpreter.h"

namespace plimsoll::optim {
namespace {

using graph::ExpectPass;
using graph::Node;
using graph::Parse;
using graph::Program;

Program Updated(std::string_view text, const UpdateOptions& options) {
  Program program = Parse(text);
  EXPECT_TRUE(Update(options).Run(program).changed);
  return program;
}

// A gate decides on the device whether a step counts.
TEST(SkippedUpdates, AreThoseThatDiverge) {
  ExpectPass(Update({.algorithm = UpdateOptions::Algorithm::kSgd,
                     .momentum = 0,
                     .groups = {},
                     .clip_grad_norm = 0,
                     .skips = true}),
             R"(program p
  tensor %w: f32[6] parameter persistent
  tensor %w.grad: f32[6] gradient persistent of %w as gradient
  tensor %loss: f32[] metric persistent
)",
             R"(program p
  …
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %loss_limit: f32[] input persistent
  tensor %skipped: i32[2] state persistent
  tensor %update_count: i32[] optimizer_state persistent
update
  %grad_norm = global_norm(%w.grad) !update
  %update_gate: i32[], %skipped = update_gate(%grad_norm, %loss, %loss_limit, %skipped) !update uncounted
  %update_count = increment(%update_count, %update_gate) !update
  %w, _, _, _ = sgd(%w, %w.grad, _, %lr, _, %update_gate) {momentum=0.0, nesterov=false, weight_decay=0.0} @w !update
)");
}

// A gradient beyond the largest norm has a square that is finite in no moment.
TEST(SkippedUpdates, LimitTheNormWhereUnclippedGradientsAreSquared) {
  using Algorithm = UpdateOptions::Algorithm;
  using ClipBy = UpdateOptions::ClipBy;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto limit = [](Algorithm algorithm, double clip, ClipBy by = ClipBy::kStep) {
    return LargestNorm({.algorithm = algorithm, .clip_grad_norm = clip, .clip_by = by});
  };
  EXPECT_EQ(limit(Algorithm::kAdamW, 1), kInfinity);
  EXPECT_EQ(limit(Algorithm::kAdamW, 1, ClipBy::kParameter), kInfinity);
  EXPECT_EQ(limit(Algorithm::kSgd, 0), kInfinity);
  const double largest = limit(Algorithm::kAdamW, 0);
  EXPECT_LE(largest * largest, 0x1p127);  // finite in float32 and bf16
  EXPECT_LT(largest, 6e19);
  EXPECT_EQ(limit(Algorithm::kMuon, 0), largest);
  EXPECT_EQ(limit(Algorithm::kAdamW, 1e30), largest);
  EXPECT_EQ(limit(Algorithm::kAdamW, 1, ClipBy::kLastStep), largest);
}

TEST(SkippedUpdates, AreThoseWhoseSquaresOverflow) {
  ThreadPool pool(1);
  for (const bool scaled : {false, true}) {
    UpdateOptions options = {.clip_grad_norm = 0, .skips = true};
    if (scaled) options.loss_scale.emplace();
    const Program program = Updated(R"(program p
  tensor %w: f32[2] parameter persistent
  tensor %w.grad: f32[2] gradient persistent of %w as gradient
  tensor %loss: f32[] metric persistent
)",
                                    options);
    ops::Interpreter interpreter(program, pool);
    const auto set = [&](const char* name, std::vector<double> values) {
      interpreter.Set(name, values);
    };
    set("w", {1, 2});
    set("w.m", {0, 0});
    set("w.v", {0, 0});
    set("lr", {0.1});
    set("update_count", {0});
    set("skipped", {0, 0});
    set("loss", {1});
    set("loss_limit", {std::numeric_limits<double>::infinity()});
    const double scale = scaled ? 1024 : 1;
    if (scaled) {
      set("loss_scale", {scale});
      set("growth_tracker", {0});
    }
    set("w.grad", {6e19 * scale, 0});
    interpreter.Run();
    EXPECT_EQ(interpreter.Get("skipped"), (std::vector<double>{1, 1}));
    EXPECT_EQ(interpreter.Get("w"), (std::vector<double>{1, 2}));
    EXPECT_EQ(interpreter.Get("w.v"), (std::vector<double>{0, 0}));
    set("w.grad", {9e18 * scale, 0});
    interpreter.Run();
    EXPECT_EQ(interpreter.Get("skipped"), (std::vector<double>{1, 0}));
    EXPECT_TRUE(std::isfinite(interpreter.Get("w.v")[0]));
    EXPECT_LT(interpreter.Get("w")[0], 1);
  }
}

// With a loss scale, the op that detects overflows checks the loss too.
TEST(SkippedUpdates, AreThoseThatDivergeWithLossScaling) {
  const Program program = Updated(R"(program p
  tensor %w: f32[6] parameter persistent
  tensor %w.grad: f32[6] gradient persistent of %w as gradient
  tensor %loss: f32[] metric persistent
  tensor %loss_scale: f32[] state persistent
)",
                                  {.loss_scale = ops::LossScaleOptions{}, .skips = true});
  int found = 0;
  for (const Node& node : program.nodes()) {
    EXPECT_NE(node.op->name, "update_gate");
    if (node.op->name != "loss_scale_step") continue;
    ++found;
    ASSERT_EQ(node.inputs.size(), 6u);
    EXPECT_EQ(node.inputs[4], program.Require("loss"));
    EXPECT_EQ(node.inputs[5], program.Require("loss_limit"));
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace plimsoll::optim
