#include "ops/elementwise/relu.h"

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::GradientContext;
using graph::OpRegistration;
using graph::Precision;
using graph::ShardingRule;
using graph::Value;

void ReluGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(0, ctx.builder().Emit1("relu_backward", {ctx.output(0), ctx.output_gradient(0)}));
}

const OpRegistration kRelu({
    .name = "relu",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &LikeFloatInput0,
    .gradient = &ReluGradient,
    .cost = FlopsPerElement(1),
    .in_place = {{0, 0}},
    .precision = {Precision::kLowStorage, "chooses between x and 0, rounds nothing"},
    .sharding = {.follows = ShardingRule::kElements},
    .cheap_to_recompute = true,
    .recompute_preset = "activations",
});

const OpRegistration kReluBackward({
    .name = "relu_backward",
    .inputs = {{"y"}, {"dy"}},
    .outputs = {{"dx"}},
    .infer = &LikeEqualFloatInputs,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .in_place = {{0, 0}, {1, 0}},
});

}  // namespace

Value Relu(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("relu", {x}, {}, name);
}

}  // namespace plimsoll::ops
