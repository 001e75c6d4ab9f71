// The traits that ops declare for passes (graph/traits.h): that they are consistent, which ops have
// which trait, and how passes treat an op that declares nothing.
#include "graph/traits.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "amp/precision_policy.h"
#include "checkpointing/retention_policy.h"
#include "graph/gradient.h"
#include "graph/op.h"
#include "inference/kv_cache.h"
#include "memory/device_rates.h"
#include "parallel/tensor_parallel.h"
#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::CostClass;
using graph::OpCall;
using graph::OpDef;
using graph::OpRegistry;
using graph::Parse;
using graph::Precision;
using graph::Program;
using graph::ShardingRule;
using graph::Transfer;
using Names = std::set<std::string>;

// A model's op as an author might leave it.
const graph::OpRegistration kUndeclared({
    .name = "test_undeclared",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = [](const OpCall& call) { return std::vector{call.input(0)}; },
    .gradient =
        [](graph::GradientContext& ctx) {
          if (ctx.wants(0)) ctx.SetGradient(0, ctx.output_gradient(0));
        },
    .cost =
        [](const OpCall& call) {
          return graph::Cost{1e15, 2.0 * call.input(0).bytes()};
        },
});

Names OpsWith(const std::function<bool(const OpDef&)>& trait) {
  Names names;
  for (const OpDef* op : OpRegistry::Get().All()) {
    if (trait(*op)) names.insert(op->name);
  }
  return names;
}

void ExpectOptionalInput(const OpDef& op, int input) {
  ASSERT_LT(input, static_cast<int>(op.inputs.size()));
  EXPECT_TRUE(op.inputs[static_cast<size_t>(input)].optional);
}

TEST(Traits, FitTogether) {
  for (const OpDef* op : OpRegistry::Get().All()) {
    SCOPED_TRACE(op->name);
    EXPECT_FALSE(op->gradient && op->stops_gradient) << "a gradient, or none";
    EXPECT_TRUE(!op->precision.tf32 || op->precision.precision == Precision::kLow);
    EXPECT_EQ(op->name.ends_with("_start"),
              op->transfer == Transfer::kCopyStart || op->transfer == Transfer::kCollectiveStart);
    EXPECT_EQ(op->name.ends_with("_done"), op->view && op->transfer != Transfer::kNone);
    EXPECT_TRUE(!op->view || op->cost_class == CostClass::kBandwidth) << "a view takes no time";

    const ShardingRule& sharding = op->sharding;
    const int inputs = static_cast<int>(op->inputs.size());
    EXPECT_TRUE(sharding.follows == ShardingRule::kNothing || sharding.inputs <= inputs);
    EXPECT_EQ(sharding.split_weight != ShardingRule::kRefused, sharding.weight >= 0);
    EXPECT_LT(sharding.weight, inputs);
    EXPECT_LT(op->finds_largest.size(), op->outputs.size());
    EXPECT_TRUE(!op->takes_adapters || sharding.split_weight == ShardingRule::kProduct);

    const graph::Continuation& continuation = op->continuation;
    if (!continuation.cached_op.empty()) OpRegistry::Get().Require(continuation.cached_op);
    if (continuation.position >= 0) ExpectOptionalInput(*op, continuation.position);
    if (continuation.position_table >= 0) ExpectOptionalInput(*op, continuation.position_table);
  }
}

TEST(Traits, AreThoseOfTheseOps) {
  EXPECT_EQ(OpsWith([](const OpDef& op) { return op.cost_class == CostClass::kProducts; }),
            (Names{"conv", "conv_dw", "conv_dx", "conv_transpose", "linear", "linear_cross_entropy",
                   "linear_cross_entropy_backward", "linear_cross_entropy_train", "linear_dw",
                   "linear_dx", "linear_dx_gelu", "linear_log_probs", "linear_log_probs_backward",
                   "matmul", "scaled_linear"}));
  EXPECT_EQ(OpsWith([](const OpDef& op) { return op.cost_class == CostClass::kAttention; }),
            (Names{"attention", "attention_backward"}));
  EXPECT_EQ(OpsWith([](const OpDef& op) { return op.precision.tf32; }),
            (Names{"add_low_rank", "attention", "conv", "conv_transpose", "linear",
                   "linear_cross_entropy", "linear_log_probs", "matmul"}));
  EXPECT_EQ(OpsWith([](const OpDef& op) { return op.cheap_to_recompute; }),
            (Names{"add",
                   "batch_norm",
                   "cast",
                   "concat_channels",
                   "dequantize",
                   "drop_path",
                   "dropout",
                   "geglu",
                   "gelu",
                   "largest_magnitude",
                   "layer_norm",
                   "leaky_relu",
                   "mul",
                   "prepend_token",
                   "qk_norm",
                   "quantize",
                   "quantize_activation",
                   "relu",
                   "resize",
                   "rms_norm",
                   "rotary",
                   "scale",
                   "sigmoid",
                   "silu",
                   "softcap",
                   "space_to_depth",
                   "subsample",
                   "swiglu",
                   "tanh",
                   "transpose_codes"}));
  EXPECT_EQ(OpsWith([](const OpDef& op) { return op.with_backward; }),
            (Names{"linear_cross_entropy_train"}));
  EXPECT_EQ(OpsWith([](const OpDef& op) { return op.recompute_preset == "norms"; }),
            (Names{"batch_norm", "layer_norm", "qk_norm", "rms_norm"}));
  EXPECT_EQ(OpsWith([](const OpDef& op) { return op.recompute_preset == "activations"; }),
            (Names{"dequantize", "geglu", "gelu", "leaky_relu", "quantize_activation", "relu",
                   "sigmoid", "silu", "softcap", "swiglu", "tanh"}));
  EXPECT_EQ(OpsWith([](const OpDef& op) { return op.recompute_preset == "attention"; }),
            (Names{"attention", "masked_softmax"}));
  EXPECT_EQ(OpsWith([](const OpDef& op) { return !op.finds_largest.empty(); }),
            (Names{"add_layer_norm",
                   "add_rms_norm",
                   "attention",
                   "attention_backward",
                   "geglu",
                   "geglu_backward",
                   "geglu_with_backward",
                   "gelu",
                   "gelu_backward",
                   "gelu_with_backward",
                   "layer_norm",
                   "layer_norm_backward",
                   "layer_norm_with_backward",
                   "rms_norm",
                   "rms_norm_backward",
                   "rms_norm_with_backward",
                   "rotary",
                   "swiglu",
                   "swiglu_backward",
                   "swiglu_with_backward"}));
  EXPECT_EQ(OpsWith([](const OpDef& op) { return op.stops_gradient; }),
            (Names{"power_iteration", "stop_gradient"}));
}

TEST(Traits, PresetsAreThoseOfTheReference) {
  Names presets;
  for (const OpDef* op : OpRegistry::Get().All()) presets.emplace(op->recompute_preset);
  EXPECT_EQ(presets, (Names{"", "activations", "attention", "norms"}));
}

constexpr std::string_view kProgram = R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[8,4] parameter persistent
forward
  %y: f32[8,8] = linear(%x, %w, _)
  %z: f32[8,8] = test_undeclared(%y) @layer
backward
  %d: f32[8,8] = mul(%z, %z)
)";

TEST(AnUndeclaredOp, WorksInFloat32AndMayBeAskedForLess) {
  const OpDef& op = OpRegistry::Get().Require("test_undeclared");
  amp::AmpOptions options;
  options.dtype = graph::DType::kBFloat16;
  EXPECT_EQ(amp::PrecisionOf(op, options), Precision::kFloat32);
  options.low_ops = {"test_undeclared"};
  EXPECT_EQ(amp::FindProblem(options), std::nullopt);
  EXPECT_EQ(amp::PrecisionOf(op, options), Precision::kLow);
}

TEST(AnUndeclaredOp, NeedsWhatRanksShareInWhole) {
  Program program = Parse(kProgram);
  const parallel::TensorParallelOptions options = {
      .ranks = 2, .parts = {{"w", {parallel::ParameterPart::kRows, {4, 4}}}}};
  EXPECT_EQ(MessageOf<InternalError>([&] { parallel::TensorParallel(options).Run(program); }),
            "tensor_parallel: test_undeclared @layer cannot work with 'y' as ranks share it");
}

TEST(AnUndeclaredOp, IsRecomputedByItsNameAlone) {
  using checkpointing::Options;
  for (const char* const pattern : {"test_undeclared", "norms"}) {
    Program program = Parse(kProgram);
    Options options;
    options.policy = Options::Policy::kSelective;
    options.recompute.patterns = {pattern};
    const auto message =
        MessageOf<UserError>([&] { checkpointing::TagActivations(options).Run(program); });
    EXPECT_EQ(message.has_value(), std::string_view(pattern) == "norms");
  }
  EXPECT_FALSE(OpRegistry::Get().Require("test_undeclared").cheap_to_recompute);
}

TEST(AnUndeclaredOp, HandlesEachTokenByItself) {
  Program program = Parse(kProgram);
  inference::KvCache(16).Run(program);
  for (const graph::Node& node : program.nodes()) {
    EXPECT_TRUE(node.op->name != "test_undeclared" || node.inputs.size() == 1);
  }
}

// Without matrix units, which few ops can use.
TEST(AnUndeclaredOp, HasTheSpeedOfVectors) {
  const OpDef& op = OpRegistry::Get().Require("test_undeclared");
  const graph::TensorType low{graph::DType::kBFloat16, {1024}};
  const graph::TensorType* const types[] = {&low};
  const graph::Attributes none;
  const OpCall call{op, types, types, none};
  EXPECT_GT(memory::DeviceRates::Gpu().Seconds(call), 1e15 / 60e12);
  EXPECT_GT(memory::DeviceRates::Cpu(1).Seconds(call), 1e15 / 60e9);
}

}  // namespace
}  // namespace plimsoll::ops
