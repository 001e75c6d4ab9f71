#include "ops/elementwise/sigmoid.h"

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::GradientContext;
using graph::OpRegistration;
using graph::Precision;
using graph::ShardingRule;
using graph::Value;

void SigmoidGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(0,
                  ctx.builder().Emit1("sigmoid_backward", {ctx.output(0), ctx.output_gradient(0)}));
}

void TanhGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(0, ctx.builder().Emit1("tanh_backward", {ctx.output(0), ctx.output_gradient(0)}));
}

const OpRegistration kSigmoid({
    .name = "sigmoid",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &LikeFloatInput0,
    .gradient = &SigmoidGradient,
    .cost = FlopsPerElement(4),
    .in_place = {{0, 0}},
    .precision = {Precision::kLowStorage, "computed in float32, rounded once"},
    .sharding = {.follows = ShardingRule::kElements},
    .cheap_to_recompute = true,
    .recompute_preset = "activations",
});

const OpRegistration kSigmoidBackward({
    .name = "sigmoid_backward",
    .inputs = {{"y"}, {"dy"}},
    .outputs = {{"dx"}},
    .infer = &LikeEqualFloatInputs,
    .gradient = {},
    .cost = FlopsPerElement(3),
    .in_place = {{0, 0}, {1, 0}},
});

const OpRegistration kTanh({
    .name = "tanh",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &LikeFloatInput0,
    .gradient = &TanhGradient,
    .cost = FlopsPerElement(5),
    .in_place = {{0, 0}},
    .precision = {Precision::kLowStorage, "computed in float32, rounded once"},
    .sharding = {.follows = ShardingRule::kElements},
    .cheap_to_recompute = true,
    .recompute_preset = "activations",
});

const OpRegistration kTanhBackward({
    .name = "tanh_backward",
    .inputs = {{"y"}, {"dy"}},
    .outputs = {{"dx"}},
    .infer = &LikeEqualFloatInputs,
    .gradient = {},
    .cost = FlopsPerElement(3),
    .in_place = {{0, 0}, {1, 0}},
});

}  // namespace

Value Sigmoid(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("sigmoid", {x}, {}, name);
}

Value Tanh(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("tanh", {x}, {}, name);
}

}  // namespace plimsoll::ops
