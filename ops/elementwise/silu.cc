#include "ops/elementwise/silu.h"

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

void SiluGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(0, ctx.builder().Emit1("silu_backward", {ctx.input(0), ctx.output_gradient(0)}));
}

TensorType HalfOf(const OpCall& call) {
  const TensorType& gate_up = call.input(0);
  Check(
      graph::IsFloat(gate_up.dtype) && gate_up.shape.rank() >= 1 && gate_up.shape.dim(-1) % 2 == 0,
      call, "gate_up must be floating, [...,2F]");
  return {gate_up.dtype, gate_up.shape.WithLast(gate_up.shape.dim(-1) / 2)};
}

std::vector<TensorType> InferSwiglu(const OpCall& call) { return {HalfOf(call)}; }

void SwigluGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(0,
                  ctx.builder().Emit1("swiglu_backward", {ctx.input(0), ctx.output_gradient(0)}));
}

std::vector<TensorType> InferSwigluBackward(const OpCall& call) {
  Check(call.input(1) == HalfOf(call), call, "dy must be [...,F]");
  return {call.input(0)};
}

std::vector<TensorType> InferSwigluWithBackward(const OpCall& call) {
  Check(call.input(1) == HalfOf(call), call, "dy must be [...,F]");
  return {call.input(1), call.input(0)};
}

const OpRegistration kSilu({
    .name = "silu",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &LikeFloatInput0,
    .gradient = &SiluGradient,
    .cost = FlopsPerElement(5),
    .in_place = {{0, 0}},
    .precision = {Precision::kLowStorage, "computed in float32, rounded once"},
    .sharding = {.follows = ShardingRule::kElements},
    .cheap_to_recompute = true,
    .recompute_preset = "activations",
});

const OpRegistration kSiluBackward({
    .name = "silu_backward",
    .inputs = {{"x"}, {"dy"}},
    .outputs = {{"dx"}},
    .infer = &LikeEqualFloatInputs,
    .gradient = {},
    .cost = FlopsPerElement(9),
    .in_place = {{0, 0}, {1, 0}},
});

const OpRegistration kSwiglu({
    .name = "swiglu",
    .inputs = {{"gate_up"}},
    .outputs = {{"y"}},
    .infer = &InferSwiglu,
    .gradient = &SwigluGradient,
    .cost = FlopsPerElement(3),
    .precision = {Precision::kLowStorage, "computed in float32, rounded once"},
    .sharding = {.follows = ShardingRule::kElements},
    .cheap_to_recompute = true,
    .recompute_preset = "activations",
});

const OpRegistration kSwigluBackward({
    .name = "swiglu_backward",
    .inputs = {{"gate_up"}, {"dy"}},
    .outputs = {{"dgate_up"}},
    .infer = &InferSwigluBackward,
    .gradient = {},
    .cost = FlopsPerElement(6),
    .in_place = {{0, 0}},
});

const OpRegistration kSwigluWithBackward({
    .name = "swiglu_with_backward",
    .inputs = {{"gate_up"}, {"dy"}},
    .outputs = {{"y"}, {"dgate_up"}},
    .infer = &InferSwigluWithBackward,
    .gradient = {},
    .cost = FlopsPerElement(7),
    .in_place = {{0, 1}, {1, 0}},
});

}  // namespace

Value Silu(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("silu", {x}, {}, name);
}

Value Swiglu(graph::Builder& g, Value gate_up, std::string_view name) {
  return g.Emit1("swiglu", {gate_up}, {}, name);
}

}  // namespace plimsoll::ops
