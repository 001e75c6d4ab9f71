// What the optimizer appends to a program with gradients: text in, text out.
#include "optim/update.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::optim {
namespace {

using graph::ExpectProgram;
using graph::Node;
using graph::Parse;
using graph::Program;

// A matrix and a vector with gradients.
constexpr std::string_view kGradients = R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,6] input persistent
  tensor %w: f32[6,4] parameter persistent
  tensor %b: f32[6] parameter persistent
backward
  %w.grad: f32[6,4] gradient, %b.grad: f32[6] gradient = linear_dw(%x, %dy, _, _) {bias=true} @fc
)";

Program Updated(std::string_view text, const UpdateOptions& options) {
  Program program = Parse(text);
  EXPECT_TRUE(Update(options).Run(program).changed);
  return program;
}

TEST(Update, AdamWWithClipping) {
  ExpectProgram(Updated(kGradients, {.beta1 = 0.875,
                                     .beta2 = 0.9375,
                                     .eps = 0.5,
                                     .weight_decay = 0.25,
                                     .groups = {},
                                     .clip_grad_norm = 2.0}),
                R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,6] input persistent
  tensor %w: f32[6,4] parameter persistent
  tensor %b: f32[6] parameter persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %w.m: f32[6,4] optimizer_state persistent
  tensor %w.v: f32[6,4] optimizer_state persistent
  tensor %b.m: f32[6] optimizer_state persistent
  tensor %b.v: f32[6] optimizer_state persistent
backward
  %w.grad: f32[6,4] gradient, %b.grad: f32[6] gradient = linear_dw(%x, %dy, _, _) {bias=true} @fc
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %clip_factor: f32[] = clip_factor(%grad_norm) {max_norm=2.0} !update
  %update_count = increment(%update_count) !update
  %w, %w.m, %w.v = adamw(%w, %w.grad, %w.m, %w.v, %lr, %update_count, %clip_factor) {beta1=0.875, beta2=0.9375, eps=0.5, weight_decay=0.25} @w !update
  %b, %b.m, %b.v = adamw(%b, %b.grad, %b.m, %b.v, %lr, %update_count, %clip_factor) {beta1=0.875, beta2=0.9375, eps=0.5, weight_decay=0.0} @b !update
)");
}

TEST(Update, SgdWithoutMomentumAndClipping) {
  ExpectProgram(Updated(kGradients, {.algorithm = UpdateOptions::Algorithm::kSgd,
                                     .momentum = 0,
                                     .weight_decay = 0.25,
                                     .groups = {},
                                     .clip_grad_norm = 0}),
                R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,6] input persistent
  tensor %w: f32[6,4] parameter persistent
  tensor %b: f32[6] parameter persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
backward
  %w.grad: f32[6,4] gradient, %b.grad: f32[6] gradient = linear_dw(%x, %dy, _, _) {bias=true} @fc
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %update_count = increment(%update_count) !update
  %w, _ = sgd(%w, %w.grad, _, %lr, _) {momentum=0.0, nesterov=false, weight_decay=0.25} @w !update
  %b, _ = sgd(%b, %b.grad, _, %lr, _) {momentum=0.0, nesterov=false, weight_decay=0.0} @b !update
)");
}

TEST(Update, SgdWithMomentum) {
  ExpectProgram(Updated(kGradients, {.algorithm = UpdateOptions::Algorithm::kSgd,
                                     .momentum = 0.875,
                                     .nesterov = true,
                                     .weight_decay = 0.25,
                                     .groups = {},
                                     .clip_grad_norm = 2.0}),
                R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,6] input persistent
  tensor %w: f32[6,4] parameter persistent
  tensor %b: f32[6] parameter persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %w.momentum: f32[6,4] optimizer_state persistent
  tensor %b.momentum: f32[6] optimizer_state persistent
backward
  %w.grad: f32[6,4] gradient, %b.grad: f32[6] gradient = linear_dw(%x, %dy, _, _) {bias=true} @fc
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %clip_factor: f32[] = clip_factor(%grad_norm) {max_norm=2.0} !update
  %update_count = increment(%update_count) !update
  %w, %w.momentum = sgd(%w, %w.grad, %w.momentum, %lr, %clip_factor) {momentum=0.875, nesterov=true, weight_decay=0.25} @w !update
  %b, %b.momentum = sgd(%b, %b.grad, %b.momentum, %lr, %clip_factor) {momentum=0.875, nesterov=true, weight_decay=0.0} @b !update
)");
}

// The decay that the update of a parameter was given.
double DecayOf(const Program& program, std::string_view parameter) {
  for (const Node& node : program.nodes()) {
    if (node.op->name == "adamw" && program.tensor(node.inputs[0]).name == parameter) {
      return node.attributes.GetReal("weight_decay");
    }
  }
  ADD_FAILURE() << "no update of " << parameter;
  return -1;
}

TEST(Update, OnlyMatricesDecay) {
  const Program program = Updated(kGradients, {.weight_decay = 0.5, .groups = {}});
  EXPECT_EQ(DecayOf(program, "w"), 0.5);
  EXPECT_EQ(DecayOf(program, "b"), 0);
}

TEST(Update, TheFirstGroupThatMatchesDecides) {
  const std::vector<DecayGroup> any_then_b = {{"?", 0.25}, {"b", 0.125}};
  Program program = Updated(kGradients, {.weight_decay = 0.5, .groups = any_then_b});
  EXPECT_EQ(DecayOf(program, "w"), 0.25);
  EXPECT_EQ(DecayOf(program, "b"), 0.25);

  const std::vector<DecayGroup> b_then_any = {{"b", 0.125}, {"?", 0.25}};
  program = Updated(kGradients, {.weight_decay = 0.5, .groups = b_then_any});
  EXPECT_EQ(DecayOf(program, "w"), 0.25);
  EXPECT_EQ(DecayOf(program, "b"), 0.125);

  // A group may switch decay off; without a match the default stays.
  program = Updated(kGradients, {.weight_decay = 0.5, .groups = {{"w", 0}}});
  EXPECT_EQ(DecayOf(program, "w"), 0);
  EXPECT_EQ(DecayOf(program, "b"), 0);
  program = Updated(kGradients, {.weight_decay = 0.5, .groups = {{"*.w", 0.25}}});
  EXPECT_EQ(DecayOf(program, "w"), 0.5);
}

// Neither an update, nor moments, nor a share in the norm.
TEST(Update, LeavesParametersWithoutGradientAlone) {
  ExpectProgram(Updated(R"(program p
  tensor %frozen: f32[6,4] parameter persistent
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,3] input persistent
  tensor %w: f32[3,6] parameter persistent
forward
  %y: f32[8,6] = linear(%x, %frozen, _)
backward
  %w.grad: f32[3,6] gradient, _ = linear_dw(%y, %dy, _, _) {bias=false}
)",
                        {.algorithm = UpdateOptions::Algorithm::kSgd,
                         .momentum = 0,
                         .weight_decay = 0.25,
                         .groups = {},
                         .clip_grad_norm = 0}),
                R"(program p
  tensor %frozen: f32[6,4] parameter persistent
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,3] input persistent
  tensor %w: f32[3,6] parameter persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
forward
  %y: f32[8,6] = linear(%x, %frozen, _)
backward
  %w.grad: f32[3,6] gradient, _ = linear_dw(%y, %dy, _, _) {bias=false}
update
  %grad_norm = global_norm(%w.grad) !update
  %update_count = increment(%update_count) !update
  %w, _ = sgd(%w, %w.grad, _, %lr, _) {momentum=0.0, nesterov=false, weight_decay=0.25} @w !update
)");
}

TEST(Update, NeedsAGradient) {
  Program program = Parse(R"(program p
  tensor %w: f32[4] parameter persistent
forward
  %loss: f32[] = sum(%w)
)");
  ExpectInternalError([&] { Update({}).Run(program); }, {"update", "no gradients"});
}

}  // namespace
}  // namespace plimsoll::optim
