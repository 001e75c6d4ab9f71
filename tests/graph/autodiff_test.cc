#include "graph/autodiff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "graph/gradient.h"
#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::graph {
namespace {

Program Differentiated(std::string_view text, Carry carry = Carry::kNone) {
  Program program = Parse(text);
  Autodiff({.loss = "loss", .carry = carry}).Run(program);
  return program;
}

// x is used twice: its gradients are added, the later use first. The input needs no gradient, so
// none is computed for it.
constexpr std::string_view kTwoUses = R"(program p
  tensor %x: f32[4] input persistent
  tensor %w: f32[4] parameter persistent
forward
  %a: f32[4] = mul(%x, %w) @one
  %b: f32[4] = mul(%a, %a) @two
  %loss: f32[] = sum(%b) @loss
)";

TEST(Autodiff, AppendsTheBackwardPass) {
  const Program program = Differentiated(kTwoUses);
  EXPECT_NO_THROW(Verify(program));
  const TensorId gradient = program.Require("w.grad");
  EXPECT_EQ(program.tensor(gradient).role, Role::kGradient);
  EXPECT_FALSE(program.tensor(gradient).persistent);
  EXPECT_EQ(program.Find("x.grad"), kNoTensor);
  for (size_t i = 3; i < program.nodes().size(); ++i) {
    EXPECT_EQ(program.nodes()[i].phase, Phase::kBackward);
    EXPECT_EQ(program.nodes()[i].made_by, "autodiff");
  }
  // The one node that makes w's gradient from x's: no node makes a gradient of x.
  EXPECT_EQ(program.nodes().back().scope, "one");
  EXPECT_EQ(program.nodes().back().outputs[0], gradient);
}

// The parts of a program that lead to frozen parameters alone are not differentiated.
TEST(Autodiff, LeavesFrozenParametersOut) {
  for (const Carry carry : {Carry::kNone, Carry::kWrite, Carry::kAccumulate}) {
    Program program = Parse(R"(program p
  tensor %x: f32[4] input persistent
  tensor %v: f32[4] parameter persistent
  tensor %w: f32[4] parameter persistent
forward
  %a: f32[4] = mul(%x, %v)
  %b: f32[4] = mul(%a, %w)
  %loss: f32[] = sum(%b)
)");
    Autodiff({.loss = "loss",
              .carry = carry,
              .frozen = [](const Tensor& parameter) { return parameter.name == "v"; }})
        .Run(program);
    EXPECT_NO_THROW(Verify(program));
    EXPECT_EQ(program.Find("v.grad"), kNoTensor);
    EXPECT_NE(program.Find("w.grad"), kNoTensor);
    for (const Node& node : program.nodes()) {
      if (node.phase != Phase::kBackward) continue;
      for (TensorId id : node.inputs) EXPECT_NE(program.tensor(id).name, "v");
    }
  }
}

// A parameter may be an exception to carrying: its gradient is that of this program alone.
TEST(Autodiff, CarriesTheGradientsThatItIsAskedTo) {
  for (const Carry carry : {Carry::kWrite, Carry::kAccumulate}) {
    Program program = Parse(R"(program p
  tensor %x: f32[4] input persistent
  tensor %v: f32[4] parameter persistent
  tensor %w: f32[4] parameter persistent
forward
  %a: f32[4] = mul(%x, %v)
  %b: f32[4] = mul(%a, %w)
  %loss: f32[] = sum(%b)
)");
    const auto carries = [](const Tensor& parameter) { return parameter.name == "v"; };
    Autodiff({.loss = "loss", .carry = carry, .carries = carries}).Run(program);
    EXPECT_NO_THROW(Verify(program));
    EXPECT_TRUE(program.tensor(program.Require("v.grad")).persistent);
    EXPECT_FALSE(program.tensor(program.Require("w.grad")).persistent);
    for (const Node& node : program.nodes()) {
      const bool reads =
          std::ranges::find(node.inputs, program.Find("w.grad")) != node.inputs.end();
      EXPECT_FALSE(reads) << "nothing is added to it";
    }
  }
}

TEST(Autodiff, GradientsOfALinearLayer) {
  ExpectProgram(Differentiated(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[6,4] parameter persistent
  tensor %b: f32[6] parameter persistent
forward
  %y: f32[8,6] = linear(%x, %w, %b) @fc
  %loss: f32[] = sum(%y)
)"),
                R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[6,4] parameter persistent
  tensor %b: f32[6] parameter persistent
  tensor %loss: f32[] metric persistent
forward
  %y: f32[8,6] = linear(%x, %w, %b) @fc
  %loss = sum(%y)
backward
  %loss.seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %fill: f32[8,6] = fill() {d0=8, d1=6, dtype="f32", rank=2, value=1.0} !autodiff
  %scale_by: f32[8,6] = scale_by(%fill, %loss.seed) !autodiff
  %w.grad: f32[6,4] gradient of %w as gradient, %b.grad: f32[6] gradient of %b as gradient = linear_dw(%x, %scale_by, _, _) {bias=true} @fc !autodiff
)");
}

// Other sums have no gradient and follow the loss.
TEST(Autodiff, SumsMetricsOverMicroStepsAsTheLoss) {
  const auto differentiated = [](Carry carry) {
    Program program = Parse(R"(program p
  tensor %k: i32[3] input persistent
  tensor %x: f32[4] input persistent
  tensor %w: f32[4] parameter persistent
forward
  %a: f32[4] = mul(%x, %w)
  %loss: f32[] = sum(%a)
  %hits: i32[3] = cast(%k) {dtype="i32"}
  %norm: f32[] = sum(%w)
)");
    Autodiff({.loss = "loss", .metrics = {"hits", "norm"}, .carry = carry}).Run(program);
    EXPECT_NO_THROW(Verify(program));
    return program;
  };
  for (const Carry carry : {Carry::kNone, Carry::kWrite}) {
    const Program program = differentiated(carry);
    for (const char* name : {"loss", "hits", "norm"}) {
      EXPECT_EQ(program.tensor(program.Require(name)).role, Role::kMetric);
      EXPECT_TRUE(program.tensor(program.Require(name)).persistent);
    }
  }
  const Program program = differentiated(Carry::kAccumulate);
  const std::string text = ToText(program);
  const std::string sums = text.substr(text.find("  %loss = add("));
  EXPECT_EQ(sums,
            "  %loss = add(%loss, %loss.micro) !autodiff\n"
            "  %hits = add(%hits, %hits.micro) !autodiff\n"
            "  %norm = add(%norm, %norm.micro) !autodiff\n");
  EXPECT_EQ(program.tensor(program.Require("hits")).role, Role::kMetric);
  EXPECT_EQ(program.tensor(program.Require("hits.micro")).role, Role::kActivation);
  EXPECT_FALSE(program.tensor(program.Require("hits.micro")).persistent);
}

// First micro-step: gradients are written to tensors that outlive the program.
TEST(Autodiff, CarriesGradients) {
  const Program program = Differentiated(kTwoUses, Carry::kWrite);
  EXPECT_NO_THROW(Verify(program));
  const Tensor& gradient = program.tensor(program.Require("w.grad"));
  EXPECT_TRUE(gradient.persistent);
  EXPECT_TRUE(program.tensor(program.Require("loss")).persistent);
}

// Later micro-steps add to them, in the kernel if the op supports that; the loss is added up too.
TEST(Autodiff, AccumulatesIntoCarriedGradients) {
  ExpectProgram(Differentiated(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[6,4] parameter persistent
forward
  %y: f32[8,6] = linear(%x, %w, _) @fc
  %loss: f32[] = sum(%y)
)",
                               Carry::kAccumulate),
                R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[6,4] parameter persistent
  tensor %w.grad: f32[6,4] gradient persistent of %w as gradient
  tensor %loss: f32[] metric persistent
forward
  %y: f32[8,6] = linear(%x, %w, _) @fc
  %loss.micro: f32[] = sum(%y)
backward
  %loss.seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %fill: f32[8,6] = fill() {d0=8, d1=6, dtype="f32", rank=2, value=1.0} !autodiff
  %scale_by: f32[8,6] = scale_by(%fill, %loss.seed) !autodiff
  %w.grad, _ = linear_dw(%x, %scale_by, %w.grad, _) {bias=false} @fc !autodiff
  %loss = add(%loss, %loss.micro) !autodiff
)");
}

TEST(Autodiff, AParameterUsedTwiceHasOneGradient) {
  for (Carry carry : {Carry::kNone, Carry::kWrite, Carry::kAccumulate}) {
    const Program program = Differentiated(R"(program tied
  tensor %x: f32[4,4] input persistent
  tensor %w: f32[4,4] parameter persistent
forward
  %y: f32[4,4] = linear(%x, %w, _)
  %z: f32[4,4] = linear(%y, %w, _)
  %loss: f32[] = sum(%z)
)",
                                           carry);
    EXPECT_NO_THROW(Verify(program));
    int gradients = 0;
    for (const Tensor& tensor : program.tensors()) gradients += tensor.name == "w.grad";
    EXPECT_EQ(gradients, 1);
    // Differentiation meets the second use first; the first use's linear_dw adds to its result.
    const Node& last_dw = *std::find_if(program.nodes().rbegin(), program.nodes().rend(),
                                        [](const Node& n) { return n.op->name == "linear_dw"; });
    EXPECT_NE(last_dw.inputs[2], kNoTensor);
    EXPECT_EQ(last_dw.outputs[0], program.Require("w.grad"));
  }
}

// A gradient that is only passed through (add passes its own on) is copied before it becomes a
// parameter's gradient: two parameters never share one.
TEST(Autodiff, ParametersDontShareAGradient) {
  for (Carry carry : {Carry::kNone, Carry::kWrite, Carry::kAccumulate}) {
    const Program program = Differentiated(R"(program p
  tensor %v: f32[4] parameter persistent
  tensor %w: f32[4] parameter persistent
forward
  %y: f32[4] = add(%v, %w)
  %loss: f32[] = sum(%y)
)",
                                           carry);
    EXPECT_NO_THROW(Verify(program));
    EXPECT_NE(program.Require("v.grad"), program.Require("w.grad"));
  }
}

TEST(Autodiff, StopGradientCuts) {
  const Program program = Differentiated(R"(program p
  tensor %v: f32[4] parameter persistent
  tensor %w: f32[4] parameter persistent
forward
  %a: f32[4] = gelu(%v) {approximate="tanh"}
  %s: f32[4] view %a+0 = stop_gradient(%a)
  %y: f32[4] = mul(%s, %w)
  %loss: f32[] = sum(%y)
)");
  EXPECT_NO_THROW(Verify(program));
  EXPECT_EQ(program.Find("v.grad"), kNoTensor);
  EXPECT_NE(program.Find("w.grad"), kNoTensor);
  for (const Node& node : program.nodes()) EXPECT_NE(node.op->name, "gelu_backward");
}

// Integers that stand for floats, made and read without a gradient, and integers that are meant as
// constants.
std::vector<TensorType> InferCodes(const OpCall& call) {
  return {{DType::kInt32, call.input(0).shape}};
}
std::vector<TensorType> InferFromCodes(const OpCall& call) {
  return {{DType::kFloat32, call.input(0).shape}};
}
const OpRegistration kToCodes({
    .name = "test_to_codes",
    .inputs = {{"x"}},
    .outputs = {{"codes"}},
    .infer = &InferCodes,
    .gradient = {},
    .cost = {},
});
const OpRegistration kPick({
    .name = "test_pick",
    .inputs = {{"x"}},
    .outputs = {{"codes"}},
    .infer = &InferCodes,
    .gradient = {},
    .cost = {},
    .stops_gradient = true,
});
const OpRegistration kFromCodes({
    .name = "test_from_codes",
    .inputs = {{"codes"}},
    .outputs = {{"y"}},
    .infer = &InferFromCodes,
    .gradient = [](GradientContext&) {},
    .cost = {},
});

// An op without a gradient rule must not silently stop it: that part of v's gradient would be
// missing.
TEST(Autodiff, NamesAnOpWithoutGradientThatTheLossDependsOn) {
  const auto depends_on = [](std::string_view middle) {
    return R"(program step
  tensor %v: f32[2,3,4] parameter persistent
  tensor %w: f32[2,4] parameter persistent
  tensor %index: i32[2] input persistent
forward
  %a: f32[2,3,4] = gelu(%v) {approximate="tanh"}
)" + std::string(middle) +
           R"(
  %y: f32[2,4] = mul(%rows, %w)
  %loss: f32[] = sum(%y)
)";
  };
  const std::string text = depends_on("  %rows: f32[2,4] = select_rows(%a, %index) @head");
  ExpectInternalError([&] { Differentiated(text); },
                      {"'loss' of program 'step'", "node 1 (select_rows @head)", "reads 'a'",
                       "select_rows has no gradient"});

  // It may be read as a constant, or where no parameter precedes it that is trained.
  EXPECT_NO_THROW(Differentiated(depends_on(R"(
  %s: f32[2,3,4] view %a+0 = stop_gradient(%a)
  %rows: f32[2,4] = select_rows(%s, %index) @head)")));
  Program program = Parse(text);
  Autodiff({.frozen = [](const Tensor& parameter) { return parameter.name == "v"; }}).Run(program);
  EXPECT_NE(program.Find("w.grad"), kNoTensor);
}

TEST(Autodiff, IsNotConcernedWithWhatTheLossDoesNotRead) {
  const Program program = Differentiated(R"(program p
  tensor %v: f32[2,3,4] parameter persistent
  tensor %index: i32[2] input persistent
forward
  %rows: f32[2,4] = select_rows(%v, %index)
  %loss: f32[] = sum(%v)
)");
  EXPECT_NE(program.Find("v.grad"), kNoTensor);
}

TEST(Autodiff, IntegersCarryNoGradientUnnoticed) {
  const auto through = [](const std::string& op) {
    return R"(program p
  tensor %v: f32[4] parameter persistent
  tensor %w: f32[4] parameter persistent
forward
  %codes: i32[4] = )" +
           op + R"((%v)
  %x: f32[4] = test_from_codes(%codes)
  %y: f32[4] = mul(%x, %w)
  %loss: f32[] = sum(%y)
)";
  };
  ExpectInternalError([&] { Differentiated(through("test_to_codes")); },
                      {"node 0 (test_to_codes)", "reads 'v'"});
  const Program program = Differentiated(through("test_pick"));
  EXPECT_EQ(program.Find("v.grad"), kNoTensor);
  EXPECT_NE(program.Find("w.grad"), kNoTensor);
}

// A view's inputs after the first are only kept alive: no gradient is missing there.
TEST(Autodiff, AGatherHasAGradientThroughItsStart) {
  const Program program = Differentiated(R"(program p
  tensor %v: f32[4] parameter persistent
forward
  %x: f32[4] = gelu(%v) {approximate="tanh"}
  %all: f32[8] = all_gather_start(%x) {axis="tensor", d0=8, rank=1}
  %whole: f32[8] view %all+0 = all_gather_done(%all, %x)
  %loss: f32[] = sum(%whole)
)");
  EXPECT_NE(program.Find("v.grad"), kNoTensor);
}

// The weight of the targets is not a trainable value.
TEST(Autodiff, NamesARuleThatLeavesOutAnInput) {
  ExpectInternalError(
      [] {
        Differentiated(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %targets: i32[8] input persistent
  tensor %weight: f32[] parameter persistent
  tensor %w: f32[6,4] parameter persistent
forward
  %loss: f32[], %lse: f32[8] = linear_cross_entropy(%x, %w, %targets, %weight) @head
)");
      },
      {"'loss' of program 'p' depends on 'weight'", "node 0 (linear_cross_entropy @head)"});
}

// With a loss scale the backward pass starts from carried state, which an update may change,
// instead of from 1. The loss that the host reads is not scaled.
TEST(Autodiff, StartsFromTheLossScale) {
  Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %targets: i32[8] input persistent
  tensor %weight: f32[] input persistent
  tensor %w: f32[6,4] parameter persistent
forward
  %loss: f32[], %lse: f32[8] = linear_cross_entropy(%x, %w, %targets, %weight)
)");
  Autodiff({.loss = "loss", .carry = Carry::kNone, .loss_scale = "loss_scale"}).Run(program);
  ExpectProgram(program, R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %targets: i32[8] input persistent
  tensor %weight: f32[] input persistent
  tensor %w: f32[6,4] parameter persistent
  tensor %loss: f32[] metric persistent
  tensor %loss_scale: f32[] state persistent
forward
  %loss, %lse: f32[8] = linear_cross_entropy(%x, %w, %targets, %weight)
backward
  _, %w.grad: f32[6,4] gradient of %w as gradient, _ = linear_cross_entropy_backward(%x, %w, %targets, %weight, %lse, %loss_scale, _) !autodiff
)");
}

// w is read as stored (bf16, so that a product's gradient is rounded) and, through a cast, by an op
// that works in float32: the gradients are added in float32, which is the type of w's gradient.
TEST(Autodiff, GradientsOfTwoTypesAddUpInFloat32) {
  ExpectProgram(Differentiated(R"(program p
  tensor %x: bf16[4] input persistent
  tensor %w: bf16[4] parameter persistent
forward
  %low: bf16[4] = mul(%w, %x)
  %low.f32: f32[4] = cast(%low) {dtype="f32"}
  %w.f32: f32[4] = cast(%w) {dtype="f32"}
  %sum: f32[4] = mul(%low.f32, %w.f32)
  %loss: f32[] = sum(%sum)
)"),
                R"(program p
  tensor %x: bf16[4] input persistent
  tensor %w: bf16[4] parameter persistent
  tensor %loss: f32[] metric persistent
forward
  %low: bf16[4] = mul(%w, %x)
  %low.f32: f32[4] = cast(%low) {dtype="f32"}
  %w.f32: f32[4] = cast(%w) {dtype="f32"}
  %sum: f32[4] = mul(%low.f32, %w.f32)
  %loss = sum(%sum)
backward
  %loss.seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %fill: f32[4] = fill() {d0=4, dtype="f32", rank=1, value=1.0} !autodiff
  %scale_by: f32[4] = scale_by(%fill, %loss.seed) !autodiff
  %mul: f32[4] = mul(%scale_by, %w.f32) !autodiff
  %mul.2: f32[4] = mul(%scale_by, %low.f32) !autodiff
  %scale: f32[4] gradient = scale(%mul.2) {factor=1.0} !autodiff
  %cast: bf16[4] = cast(%mul) {dtype="bf16"} !autodiff
  %mul.3: bf16[4] = mul(%cast, %x) !autodiff
  %cast.2: f32[4] = cast(%mul.3) {dtype="f32"} !autodiff
  %w.grad: f32[4] gradient of %w as gradient = add(%scale, %cast.2) !autodiff
)");
}

// A weight that stays float32 and is read through a cast gets the norm's gradient as a float32 sum,
// which is never rounded to the cast's 16 bits.
TEST(Autodiff, TheGradientOfACastWeightIsNotRounded) {
  ExpectProgram(Differentiated(R"(program p
  tensor %x: bf16[8,4] input persistent
  tensor %w: f32[4] parameter persistent
forward
  %w.bf16: bf16[4] = cast(%w) {dtype="bf16"}
  %y: bf16[8,4], %rstd: f32[8] = rms_norm(%x, %w.bf16) {eps=1e-05}
  %wide: f32[8,4] = cast(%y) {dtype="f32"}
  %loss: f32[] = sum(%wide)
)",
                               Carry::kAccumulate),
                R"(program p
  tensor %x: bf16[8,4] input persistent
  tensor %w: f32[4] parameter persistent
  tensor %w.grad: f32[4] gradient persistent of %w as gradient
  tensor %loss: f32[] metric persistent
forward
  %w.bf16: bf16[4] = cast(%w) {dtype="bf16"}
  %y: bf16[8,4], %rstd: f32[8] = rms_norm(%x, %w.bf16) {eps=1e-05}
  %wide: f32[8,4] = cast(%y) {dtype="f32"}
  %loss.micro: f32[] = sum(%wide)
backward
  %loss.seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %fill: f32[8,4] = fill() {d0=8, d1=4, dtype="f32", rank=2, value=1.0} !autodiff
  %scale_by: f32[8,4] = scale_by(%fill, %loss.seed) !autodiff
  %cast: bf16[8,4] = cast(%scale_by) {dtype="bf16"} !autodiff
  _, %rms_norm_backward.dweight: f32[4] = rms_norm_backward(%x, %w.bf16, %rstd, %cast, _, _) !autodiff
  %w.grad = add(%w.grad, %rms_norm_backward.dweight) !autodiff
  %loss = add(%loss, %loss.micro) !autodiff
)");
}

// A weight computed by a low-precision op: its gradient, a float32 sum, is rounded once, for the
// rule of that op, which expects its output's type.
TEST(Autodiff, RulesGetTheOutputsType) {
  const Program program = Differentiated(R"(program p
  tensor %x: bf16[8,4] input persistent
  tensor %w: bf16[4] parameter persistent
forward
  %a: bf16[4] = silu(%w)
  %y: bf16[8,4], %rstd: f32[8] = rms_norm(%x, %a) {eps=1e-05}
  %wide: f32[8,4] = cast(%y) {dtype="f32"}
  %loss: f32[] = sum(%wide)
)");
  EXPECT_NO_THROW(Verify(program));
  EXPECT_EQ(program.tensor(program.Require("w.grad")).type.dtype, DType::kFloat32);
  for (const Node& node : program.nodes()) {
    if (node.op->name != "silu_backward") continue;
    EXPECT_EQ(program.tensor(node.inputs[1]).type.dtype, DType::kBFloat16);
  }
}

// A partial sum passed to a rule must have the type in which its op adds. Here x's gradient is
// float32, since x is also a norm's weight.
TEST(Autodiff, NamesTheNodeWhoseGradientCannotBeMade) {
  ExpectInternalError(
      [] {
        Differentiated(R"(program p
  tensor %g: bf16[4] parameter persistent
  tensor %v: bf16[4] parameter persistent
forward
  %x: bf16[4] = silu(%v)
  %y: bf16[4], %r: f32[1] = rms_norm(%x, %g) {eps=1e-05} @norm
  %z: bf16[4], %s: f32[1] = rms_norm(%y, %x) {eps=1e-05} @norm
  %wide: f32[4] = cast(%z) {dtype="f32"}
  %loss: f32[] = sum(%wide)
)");
      },
      {"autodiff: gradient of node 1 (rms_norm @norm)", "rms_norm_backward"});
}

TEST(Autodiff, RefusesALossOfNothing) {
  EXPECT_THROW(Differentiated("program p\n  tensor %x: f32[4] input persistent\nforward\n"
                              "  %loss: f32[] = sum(%x)\n"),
               InternalError);
  EXPECT_THROW(Differentiated("program p\n  tensor %w: f32[4] parameter persistent\nforward\n"
                              "  %loss: f32[4] = gelu(%w) {approximate=\"tanh\"}\n"),
               InternalError);
}

// Each backward op of a table that is split among ranks has the attribute of the split.
TEST(Autodiff, KeepsTheAxisOfASplitVocabulary) {
  ExpectProgram(Differentiated(R"(program p
  tensor %tokens: i32[2,4] input persistent
  tensor %targets: i32[2,4] input persistent
  tensor %weight: f32[] input persistent
  tensor %table: f32[6,4] parameter persistent
  tensor %position: f32[4,4] parameter persistent
forward
  %x: f32[2,4,4] = embedding(%tokens, %table, %position) {axis="tensor"}
  %loss: f32[], %lse: f32[8] = linear_cross_entropy(%x, %table, %targets, %weight) {axis="tensor"}
)"),
                R"(program p
  tensor %tokens: i32[2,4] input persistent
  tensor %targets: i32[2,4] input persistent
  tensor %weight: f32[] input persistent
  tensor %table: f32[6,4] parameter persistent
  tensor %position: f32[4,4] parameter persistent
  tensor %loss: f32[] metric persistent
forward
  %x: f32[2,4,4] = embedding(%tokens, %table, %position) {axis="tensor"}
  %loss, %lse: f32[8] = linear_cross_entropy(%x, %table, %targets, %weight) {axis="tensor"}
backward
  %loss.seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %linear_cross_entropy_backward: f32[2,4,4], %linear_cross_entropy_backward.dweight: f32[6,4] gradient, _ = linear_cross_entropy_backward(%x, %table, %targets, %weight, %lse, %loss.seed, _) {axis="tensor"} !autodiff
  %table.grad: f32[6,4] gradient of %table as gradient = embedding_dw(%tokens, %linear_cross_entropy_backward, %linear_cross_entropy_backward.dweight) {axis="tensor", rows=6} !autodiff
  %position.grad: f32[4,4] gradient of %position as gradient = position_dw(%linear_cross_entropy_backward, _) {rows=4} !autodiff
)");
}

}  // namespace
}  // namespace plimsoll::graph
