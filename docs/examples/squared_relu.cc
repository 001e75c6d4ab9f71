#include "docs/examples/squared_relu.h"

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

// The rule emits nodes; which inputs need a gradient is the caller's business.
void Gradient(graph::GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(
      0, ctx.builder().Emit1("squared_relu_backward", {ctx.input(0), ctx.output_gradient(0)}));
}

const graph::OpRegistration kForward({
    .name = "squared_relu",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &LikeFloatInput0,
    .gradient = &Gradient,
    .cost = FlopsPerElement(2),
    .in_place = {{0, 0}},  // y may take x's memory when x dies here
    .precision = {graph::Precision::kLowStorage, "computed in float32, rounded once"},
    .sharding = {.follows = graph::ShardingRule::kElements},
    .cheap_to_recompute = true,
    .recompute_preset = "activations",
});

const graph::OpRegistration kBackward({
    .name = "squared_relu_backward",
    .inputs = {{"x"}, {"dy"}},
    .outputs = {{"dx"}},
    .infer = &LikeEqualFloatInputs,
    .gradient = {},
    .cost = FlopsPerElement(3),
    .in_place = {{0, 0}, {1, 0}},
});

}  // namespace

graph::Value SquaredRelu(graph::Builder& g, graph::Value x, std::string_view name) {
  return g.Emit1("squared_relu", {x}, {}, name);
}

}  // namespace plimsoll::ops
