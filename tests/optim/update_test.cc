// Golden tests of the nodes that the optimizer appends to a program with gradients.
#include "optim/update.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::optim {
namespace {

using graph::ExpectPass;
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
  %w.grad: f32[6,4] gradient of %w as gradient, %b.grad: f32[6] gradient of %b as gradient = linear_dw(%x, %dy, _, _) {bias=true} @fc
)";

Program Updated(std::string_view text, const UpdateOptions& options) {
  Program program = Parse(text);
  EXPECT_TRUE(Update(options).Run(program).changed);
  return program;
}

TEST(Update, AdamWWithClipping) {
  ExpectPass(Update({.beta1 = 0.875,
                     .beta2 = 0.9375,
                     .eps = 0.5,
                     .weight_decay = 0.25,
                     .groups = {},
                     .clip_grad_norm = 2.0}),
             kGradients, R"(program p
  …
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %w.m: f32[6,4] optimizer_state persistent of %w as moment
  tensor %w.v: f32[6,4] optimizer_state persistent of %w as variance
  tensor %b.m: f32[6] optimizer_state persistent of %b as moment
  tensor %b.v: f32[6] optimizer_state persistent of %b as variance
backward
  %w.grad: f32[6,4] gradient of %w as gradient, %b.grad: f32[6] gradient of %b as gradient = linear_dw(%x, %dy, _, _) {bias=true} @fc
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %clip_factor: f32[] = clip_factor(%grad_norm) {max_norm=2.0} !update
  %update_count = increment(%update_count) !update
  %w, %w.m, %w.v, _, _, _ = adamw(%w, %w.grad, %w.m, %w.v, %lr, %update_count, %clip_factor) {beta1=0.875, beta2=0.9375, eps=0.5, weight_decay=0.25} @w !update
  %b, %b.m, %b.v, _, _, _ = adamw(%b, %b.grad, %b.m, %b.v, %lr, %update_count, %clip_factor) {beta1=0.875, beta2=0.9375, eps=0.5, weight_decay=0.0} @b !update
)");
}

UpdateOptions Muon(std::vector<int64_t> rows) {
  UpdateOptions options = {.algorithm = UpdateOptions::Algorithm::kMuon,
                           .beta1 = 0.875,
                           .beta2 = 0.9375,
                           .eps = 0.5,
                           .momentum = 0.5,
                           .nesterov = true,
                           .weight_decay = 0.25,
                           .groups = {},
                           .clip_grad_norm = 2.0};
  options.muon.matrices = {{"w", std::move(rows)}};
  options.muon.newton_schulz_steps = 1;
  return options;
}

// AdamW updates what Muon doesn't. √(6 / 4) is in the last factors of Newton-Schulz.
TEST(Update, MuonMakesAMatrixOrthogonal) {
  UpdateOptions options = Muon({6});
  options.muon.adjust_lr = MuonOptions::AdjustLr::kOriginal;
  ExpectPass(Update(options), kGradients, R"(program p
  …
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %w.momentum: f32[6,4] optimizer_state persistent of %w as moment
  tensor %b.m: f32[6] optimizer_state persistent of %b as moment
  tensor %b.v: f32[6] optimizer_state persistent of %b as variance
backward
  %w.grad: f32[6,4] gradient of %w as gradient, %b.grad: f32[6] gradient of %b as gradient = linear_dw(%x, %dy, _, _) {bias=true} @fc
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %clip_factor: f32[] = clip_factor(%grad_norm) {max_norm=2.0} !update
  %update_count = increment(%update_count) !update
  %w.muon: f32[6,4], %w.momentum, _ = muon_momentum(%w.grad, %w.momentum, %clip_factor) {momentum=0.5, nesterov=true} @w !update
  %w.muon.norm: f32[] = global_norm(%w.muon) @w !update
  %w.muon.x: f32[6,4] = divide_by_norm(%w.muon, %w.muon.norm) {dtype="f32", eps=1e-07} @w !update
  %w.muon.gram: f32[4,4] = matmul(%w.muon.x, %w.muon.x) {trans_a=true, trans_b=false} @w !update
  %w.muon.square: f32[4,4] = matmul(%w.muon.gram, %w.muon.gram) {trans_a=false, trans_b=false} @w !update
  %w.muon.sum: f32[4,4] = weighted_sum(%w.muon.gram, %w.muon.square) {alpha=-4.775, beta=2.0315} @w !update
  %w.muon.product: f32[6,4] = matmul(%w.muon.x, %w.muon.sum) {trans_a=false, trans_b=false} @w !update
  %w.muon.x.2: f32[6,4] = weighted_sum(%w.muon.x, %w.muon.product) {alpha=4.218633709508328, beta=1.224744871391589} @w !update
  %w, _, _, _ = sgd(%w, %w.muon.x.2, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.25} @w !update
  %b, %b.m, %b.v, _, _, _ = adamw(%b, %b.grad, %b.m, %b.v, %lr, %update_count, %clip_factor) {beta1=0.875, beta2=0.9375, eps=0.5, weight_decay=0.0} @b !update
)");
}

TEST(Update, MuonMakesStackedMatricesOrthogonalOneByOne) {
  UpdateOptions options = Muon({2, 4});
  options.muon.dtype = graph::DType::kBFloat16;
  const Program program = Updated(kGradients, options);
  std::vector<std::string> matrices, stacked;
  for (const Node& node : program.nodes()) {
    if (node.op->name == "slice") {
      const graph::Tensor& matrix = program.tensor(node.outputs[0]);
      EXPECT_EQ(program.tensor(matrix.alias->base).name, "w.muon");
      matrices.push_back(matrix.type.ToString() + "+" + std::to_string(matrix.alias->byte_offset));
    }
    if (node.op->name == "matmul") {
      EXPECT_EQ(program.tensor(node.inputs[0]).type.dtype, graph::DType::kBFloat16);
    }
    if (node.op->name != "stack_rows") continue;
    for (const graph::TensorId id : node.inputs) {
      stacked.push_back(program.tensor(id).type.ToString());
    }
    EXPECT_EQ(program.tensor(node.outputs[0]).type.ToString(), "bf16[6,4]");
  }
  EXPECT_EQ(matrices, (std::vector<std::string>{"f32[2,4]+0", "f32[4,4]+32"}));
  EXPECT_EQ(stacked, (std::vector<std::string>{"bf16[2,4]", "bf16[4,4]"}));
  options.muon.matrices = {{"w", {2, 3}}};
  Program other = Parse(kGradients);
  ExpectInternalError([&] { Update(options).Run(other); }, {"other rows"});
}

TEST(Update, ClipsEachParameterByItself) {
  ExpectPass(Update({.algorithm = UpdateOptions::Algorithm::kSgd,
                     .momentum = 0,
                     .weight_decay = 0.25,
                     .groups = {},
                     .clip_grad_norm = 2.0,
                     .clip_by = UpdateOptions::ClipBy::kParameter}),
             kGradients, R"(program p
  …
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
backward
  %w.grad: f32[6,4] gradient of %w as gradient, %b.grad: f32[6] gradient of %b as gradient = linear_dw(%x, %dy, _, _) {bias=true} @fc
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %update_count = increment(%update_count) !update
  %w.norm: f32[] = global_norm(%w.grad) @w !update
  %w.clip_factor: f32[] = clip_factor(%w.norm) {max_norm=2.0} @w !update
  %w, _, _, _ = sgd(%w, %w.grad, _, %lr, %w.clip_factor) {momentum=0.0, nesterov=false, weight_decay=0.25} @w !update
  %b.norm: f32[] = global_norm(%b.grad) @b !update
  %b.clip_factor: f32[] = clip_factor(%b.norm) {max_norm=2.0} @b !update
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr, %b.clip_factor) {momentum=0.0, nesterov=false, weight_decay=0.0} @b !update
)");
}

TEST(Update, ClipsByTheNormOfTheLastStep) {
  ExpectPass(Update({.algorithm = UpdateOptions::Algorithm::kSgd,
                     .momentum = 0,
                     .weight_decay = 0.25,
                     .groups = {},
                     .clip_grad_norm = 2.0,
                     .clip_by = UpdateOptions::ClipBy::kLastStep}),
             kGradients, R"(program p
  …
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %last_grad_norm: f32[] optimizer_state persistent
  tensor %update_count: i32[] optimizer_state persistent
backward
  %w.grad: f32[6,4] gradient of %w as gradient, %b.grad: f32[6] gradient of %b as gradient = linear_dw(%x, %dy, _, _) {bias=true} @fc
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %clip_factor: f32[] = clip_factor(%last_grad_norm) {max_norm=2.0} !update
  %last_grad_norm = commit_state(%last_grad_norm, %grad_norm) {parts=1} !update
  %update_count = increment(%update_count) !update
  %w, _, _, _ = sgd(%w, %w.grad, _, %lr, %clip_factor) {momentum=0.0, nesterov=false, weight_decay=0.25} @w !update
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr, %clip_factor) {momentum=0.0, nesterov=false, weight_decay=0.0} @b !update
)");
}

TEST(Update, SgdWithoutMomentumAndClipping) {
  ExpectPass(Update({.algorithm = UpdateOptions::Algorithm::kSgd,
                     .momentum = 0,
                     .weight_decay = 0.25,
                     .groups = {},
                     .clip_grad_norm = 0}),
             kGradients, R"(program p
  …
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
backward
  %w.grad: f32[6,4] gradient of %w as gradient, %b.grad: f32[6] gradient of %b as gradient = linear_dw(%x, %dy, _, _) {bias=true} @fc
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %update_count = increment(%update_count) !update
  %w, _, _, _ = sgd(%w, %w.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.25} @w !update
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @b !update
)");
}

TEST(Update, SgdWithMomentum) {
  ExpectPass(Update({.algorithm = UpdateOptions::Algorithm::kSgd,
                     .momentum = 0.875,
                     .nesterov = true,
                     .weight_decay = 0.25,
                     .groups = {},
                     .clip_grad_norm = 2.0}),
             kGradients, R"(program p
  …
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %w.momentum: f32[6,4] optimizer_state persistent of %w as moment
  tensor %b.momentum: f32[6] optimizer_state persistent of %b as moment
backward
  %w.grad: f32[6,4] gradient of %w as gradient, %b.grad: f32[6] gradient of %b as gradient = linear_dw(%x, %dy, _, _) {bias=true} @fc
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %clip_factor: f32[] = clip_factor(%grad_norm) {max_norm=2.0} !update
  %update_count = increment(%update_count) !update
  %w, %w.momentum, _, _ = sgd(%w, %w.grad, %w.momentum, %lr, %clip_factor) {momentum=0.875, nesterov=true, weight_decay=0.25} @w !update
  %b, %b.momentum, _, _ = sgd(%b, %b.grad, %b.momentum, %lr, %clip_factor) {momentum=0.875, nesterov=true, weight_decay=0.0} @b !update
)");
}

TEST(Update, AveragesBehindAllUpdates) {
  Program program = Parse(R"(program p
  tensor %a: bf16[6] parameter persistent
  tensor %b: f32[6] parameter persistent
  tensor %mean: f32[3] state persistent
  tensor %mean.pending: f32[3] pending persistent of %mean as pending merged last, mean
  tensor %a.grad: f32[6] gradient persistent of %a as gradient
  tensor %b.grad: f32[6] gradient persistent of %b as gradient
)");
  Update({.algorithm = UpdateOptions::Algorithm::kSgd,
          .momentum = 0,
          .clip_grad_norm = 0,
          .ranks = 2,
          .average = ops::WeightAverageOptions{.decay = 0.75, .warmup = true}})
      .Run(program);
  ExpectProgram(program, R"(program p
  tensor %a: bf16[6] parameter persistent
  tensor %b: f32[6] parameter persistent
  tensor %mean: f32[3] state persistent
  tensor %mean.pending: f32[3] pending persistent of %mean as pending merged last, mean
  tensor %a.grad: f32[6] gradient persistent of %a as gradient
  tensor %b.grad: f32[6] gradient persistent of %b as gradient
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %a.remainder: i16[6] master persistent of %a as remainder
  tensor %ema_count: i32[] optimizer_state persistent
  tensor %a.ema: f32[6] optimizer_state persistent of %a as average
  tensor %b.ema: f32[6] optimizer_state persistent of %b as average
  tensor %mean.ema: f32[3] optimizer_state persistent of %mean as average
update
  %grad_norm = global_norm(%a.grad, %b.grad) !update
  %update_count = increment(%update_count) !update
  %a, _, %a.remainder, _ = sgd(%a, %a.grad, _, %lr, _, _, %a.remainder) {momentum=0.0, nesterov=false, weight_decay=0.0} @a !update
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @b !update
  %mean = commit_state(%mean, %mean.pending) {parts=2} @mean !update
  %ema_count = increment(%ema_count) !update uncounted
  %a.ema = weight_average(%a.ema, %a, %ema_count, %a.remainder) {decay=0.75, warmup=true} @a !update uncounted
  %b.ema = weight_average(%b.ema, %b, %ema_count) {decay=0.75, warmup=true} @b !update uncounted
  %mean.ema = weight_average(%mean.ema, %mean, %ema_count) {decay=0.75, warmup=true} @mean !update uncounted
)");
}

// A large matrix and a vector in bf16, gradients in float32.
constexpr std::string_view kBFloat16Gradients = R"(program p
  tensor %x: bf16[8,128] input persistent
  tensor %dy: bf16[8,64] input persistent
  tensor %w: bf16[64,128] parameter persistent
  tensor %b: bf16[64] parameter persistent
  tensor %w.grad: f32[64,128] gradient persistent of %w as gradient
  tensor %b.grad: f32[64] gradient persistent of %b as gradient
)";

// Weights rounded to nearest, and the remainders that complete them to float32.
TEST(Update, BFloat16WithMasterWeights) {
  ExpectPass(Update({.algorithm = UpdateOptions::Algorithm::kSgd,
                     .momentum = 0,
                     .weight_decay = 0.25,
                     .clip_grad_norm = 0}),
             kBFloat16Gradients, R"(program p
  …
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %w.remainder: i16[64,128] master persistent of %w as remainder
  tensor %b.remainder: i16[64] master persistent of %b as remainder
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %update_count = increment(%update_count) !update
  %w, _, %w.remainder, _ = sgd(%w, %w.grad, _, %lr, _, _, %w.remainder) {momentum=0.0, nesterov=false, weight_decay=0.25} @w !update
  %b, _, %b.remainder, _ = sgd(%b, %b.grad, _, %lr, _, _, %b.remainder) {momentum=0.0, nesterov=false, weight_decay=0.0} @b !update
)");
}

// 8-bit moments for large parameters, float32 moments for small ones.
TEST(Update, BFloat16WithMasterWeightsAndEightBitMoments) {
  ExpectProgram(
      Updated(kBFloat16Gradients,
              {.weight_decay = 0.25, .clip_grad_norm = 0, .state_dtype = StateDType::kInt8}),
      R"(program p
  tensor %x: bf16[8,128] input persistent
  tensor %dy: bf16[8,64] input persistent
  tensor %w: bf16[64,128] parameter persistent
  tensor %b: bf16[64] parameter persistent
  tensor %w.grad: f32[64,128] gradient persistent of %w as gradient
  tensor %b.grad: f32[64] gradient persistent of %b as gradient
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %w.remainder: i16[64,128] master persistent of %w as remainder
  tensor %w.m: u8[64,128] optimizer_state persistent of %w as moment
  tensor %w.m.scale: f32[32] optimizer_state persistent of %w.m as scale
  tensor %w.v: u8[64,128] optimizer_state persistent of %w as variance
  tensor %w.v.scale: f32[32] optimizer_state persistent of %w.v as scale
  tensor %b.remainder: i16[64] master persistent of %b as remainder
  tensor %b.m: f32[64] optimizer_state persistent of %b as moment
  tensor %b.v: f32[64] optimizer_state persistent of %b as variance
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %update_count = increment(%update_count) !update
  %w, %w.m, %w.v, %w.remainder, %w.m.scale, %w.v.scale = adamw(%w, %w.grad, %w.m, %w.v, %lr, %update_count, _, _, %w.remainder, %w.m.scale, %w.v.scale) {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.25} @w !update
  %b, %b.m, %b.v, %b.remainder, _, _ = adamw(%b, %b.grad, %b.m, %b.v, %lr, %update_count, _, _, %b.remainder) {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.0} @b !update
)");
}

// Everything in 16 bits: weights and moments are rounded stochastically, with separate draws.
TEST(Update, BFloat16WithoutMasterWeights) {
  ExpectPass(Update({.weight_decay = 0.25,
                     .clip_grad_norm = 0,
                     .master_weights = false,
                     .state_dtype = StateDType::kBFloat16}),
             kBFloat16Gradients, R"(program p
  …
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %w.m: bf16[64,128] optimizer_state persistent of %w as moment
  tensor %w.v: bf16[64,128] optimizer_state persistent of %w as variance
  tensor %rng: i32[2] input persistent
  tensor %b.m: bf16[64] optimizer_state persistent of %b as moment
  tensor %b.v: bf16[64] optimizer_state persistent of %b as variance
update
  %grad_norm = global_norm(%w.grad, %b.grad) !update
  %update_count = increment(%update_count) !update
  %w, %w.m, %w.v, _, _, _ = adamw(%w, %w.grad, %w.m, %w.v, %lr, %update_count, _, _, _, _, _, %rng) {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.25, key=2} @w !update
  %b, %b.m, %b.v, _, _, _ = adamw(%b, %b.grad, %b.m, %b.v, %lr, %update_count, _, _, _, _, _, %rng) {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.0, key=3} @b !update
)");
}

// Uses the model's own rng input (of dropout).
TEST(Update, SharesTheModelsRandomInput) {
  std::string text(kBFloat16Gradients);
  text.insert(text.find("  tensor %x"), "  tensor %rng: i32[2] input persistent\n");
  const Program program = Updated(text, {.master_weights = false});
  EXPECT_EQ(program.nodes().back().inputs.back(), program.Require("rng"));
}

// The norm is computed from the scaled gradients and shows an overflow. One op decides; the updates
// unscale with the same factor that clips, and do nothing when the step is skipped.
TEST(Update, Float16WithLossScalingAndMasterWeights) {
  ExpectProgram(
      Updated(R"(program p
  tensor %w: f16[6,4] parameter persistent
  tensor %w.grad: f32[6,4] gradient persistent of %w as gradient
  tensor %loss_scale: f32[] state persistent
)",
              {.weight_decay = 0.25, .clip_grad_norm = 2.0, .loss_scale = ops::LossScaleOptions{}}),
      R"(program p
  tensor %w: f16[6,4] parameter persistent
  tensor %w.grad: f32[6,4] gradient persistent of %w as gradient
  tensor %loss_scale: f32[] state persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %growth_tracker: i32[] state persistent
  tensor %skipped: i32[2] state persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %w.master: f32[6,4] master persistent of %w as master
  tensor %w.m: f32[6,4] optimizer_state persistent of %w as moment
  tensor %w.v: f32[6,4] optimizer_state persistent of %w as variance
update
  %scaled_norm: f32[] = global_norm(%w.grad) !update
  %grad_norm, %loss_scale_step.inverse: f32[], %loss_scale_step.apply: i32[], %loss_scale, %growth_tracker, %skipped = loss_scale_step(%scaled_norm, %loss_scale, %growth_tracker, %skipped) {dynamic=true, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, min_scale=1.0} !update
  %clip_factor: f32[] = clip_factor(%grad_norm) {max_norm=2.0} !update
  %factor: f32[] = mul(%clip_factor, %loss_scale_step.inverse) !update
  %update_count = increment(%update_count, %loss_scale_step.apply) !update
  %w, %w.m, %w.v, %w.master, _, _ = adamw(%w, %w.grad, %w.m, %w.v, %lr, %update_count, %factor, %loss_scale_step.apply, %w.master) {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.25} @w !update
)");
}

// The decay in a parameter's update.
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

TEST(Update, AParameterCanHaveALearningRateOfItsOwn) {
  for (const auto algorithm : {UpdateOptions::Algorithm::kAdamW, UpdateOptions::Algorithm::kSgd}) {
    const Program program =
        Updated(kGradients, {.algorithm = algorithm, .lr_factors = {{"w", 0.75}, {"b", 1}}});
    int updates = 0;
    for (const graph::Node& node : program.nodes()) {
      if (node.op->name != "adamw" && node.op->name != "sgd") continue;
      ++updates;
      const bool is_w = program.tensor(node.inputs[0]).name == "w";
      EXPECT_EQ(node.attributes.Has("lr_factor"), is_w);
      if (is_w) {
        EXPECT_EQ(node.attributes.GetReal("lr_factor"), 0.75);
      }
    }
    EXPECT_EQ(updates, 2);
  }
}

// No update, no moments, and no share in the norm.
TEST(Update, LeavesParametersWithoutGradientAlone) {
  ExpectPass(Update({.algorithm = UpdateOptions::Algorithm::kSgd,
                     .momentum = 0,
                     .weight_decay = 0.25,
                     .groups = {},
                     .clip_grad_norm = 0}),
             R"(program p
  tensor %frozen: f32[6,4] parameter persistent
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,3] input persistent
  tensor %w: f32[3,6] parameter persistent
forward
  %y: f32[8,6] = linear(%x, %frozen, _)
backward
  %w.grad: f32[3,6] gradient of %w as gradient, _ = linear_dw(%y, %dy, _, _) {bias=false}
)",
             R"(program p
  …
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
forward
  %y: f32[8,6] = linear(%x, %frozen, _)
backward
  %w.grad: f32[3,6] gradient of %w as gradient, _ = linear_dw(%y, %dy, _, _) {bias=false}
update
  %grad_norm = global_norm(%w.grad) !update
  %update_count = increment(%update_count) !update
  %w, _, _, _ = sgd(%w, %w.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.25} @w !update
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
