#include "ops/elementwise/leaky_relu.h"

#include <vector>

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

void CheckSlope(const OpCall& call) {
  const double slope = call.attributes.GetReal("slope");
  graph::Check(slope > 0 && slope < 1, call, "the slope must be above 0 and below 1");
}

std::vector<TensorType> InferLeakyRelu(const OpCall& call) {
  CheckSlope(call);
  return LikeFloatInput0(call);
}

std::vector<TensorType> InferLeakyReluBackward(const OpCall& call) {
  CheckSlope(call);
  return LikeEqualFloatInputs(call);
}

void LeakyReluGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(
      0, ctx.builder().Emit1("leaky_relu_backward", {ctx.output(0), ctx.output_gradient(0)},
                             Select(ctx.attributes(), {"slope"})));
}

const OpRegistration kLeakyRelu({
    .name = "leaky_relu",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferLeakyRelu,
    .gradient = &LeakyReluGradient,
    .cost = FlopsPerElement(2),
    .in_place = {{0, 0}},
    .precision = {Precision::kLowStorage, "one rounding per element"},
    .sharding = {.follows = ShardingRule::kElements},
    .cheap_to_recompute = true,
    .recompute_preset = "activations",
});

const OpRegistration kLeakyReluBackward({
    .name = "leaky_relu_backward",
    .inputs = {{"y"}, {"dy"}},
    .outputs = {{"dx"}},
    .infer = &InferLeakyReluBackward,
    .gradient = {},
    .cost = FlopsPerElement(2),
    .in_place = {{0, 0}, {1, 0}},
});

}  // namespace

Value LeakyRelu(graph::Builder& g, Value x, double slope, std::string_view name) {
  return g.Emit1("leaky_relu", {x}, {{"slope", slope}}, name);
}

}  // namespace plimsoll::ops
