#include <utility>

#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/norms/norm_dropout.h"
#include "ops/norms/norm_partials.h"
#include "ops/norms/norms.h"
#include "ops/norms/unit_offset.h"

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

std::vector<TensorType> InferRmsNorm(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() >= 1, call, "x must be floating, [...,D]");
  Check(call.input(1) == TensorType{x.dtype, {x.shape.dim(-1)}}, call, "weight must be [D]");
  return WithLargest(call, {x, {graph::ComputeType(x.dtype), {x.shape.rows()}}});
}

void RmsNormGradient(GradientContext& ctx) {
  const std::vector<bool> want = {ctx.wants(0), ctx.wants(1)};
  if (!want[0] && !want[1]) return;
  std::vector<Value> inputs = {ctx.input(0), ctx.input(1), ctx.output(1), ctx.output_gradient(0)};
  for (size_t i = 0; i < 2; ++i) inputs.push_back(want[i] ? ctx.TakePartial(i) : graph::kNoTensor);
  const std::vector<Value> gradients = ctx.builder().Emit(
      "rms_norm_backward", inputs, Select(ctx.attributes(), {"unit_offset"}), "", want);
  for (size_t i = 0; i < 2; ++i) {
    if (want[i]) ctx.SetGradient(i, gradients[i]);
  }
}

std::vector<TensorType> InferRmsNormBackward(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() >= 1, call, "x must be floating, [...,D]");
  const TensorType weight{x.dtype, {x.shape.dim(-1)}};
  const TensorType dweight{graph::ComputeType(x.dtype), weight.shape};
  const TensorType statistic{graph::ComputeType(x.dtype), {x.shape.rows()}};
  Check(call.input(1) == weight, call, "weight must be [D]");
  Check(call.input(2) == statistic, call, "rstd must be [rows]");
  Check(call.input(3) == x, call, "dy must be as x");
  CheckAbsentOr(call, 4, x);
  CheckAbsentOr(call, 5, dweight);
  return WithDropped(call, 6, {x, dweight});
}

const OpRegistration kRmsNorm({
    .name = "rms_norm",
    .inputs = {{"x"}, {"weight"}},
    .outputs = {{"y"}, {"rstd", true}, {"largest", true}},
    .infer = &InferRmsNorm,
    .gradient = &RmsNormGradient,
    .cost = FlopsPerElement(4),
    .in_place = {{0, 0}},
    .precision = {Precision::kLowStorage, "the mean square and its sum stay in float32"},
    .sharding = {.follows = ShardingRule::kRows},
    .cheap_to_recompute = true,
    .recompute_preset = "norms",
    .finds_largest = {0},
});

const OpRegistration kRmsNormBackward({
    .name = "rms_norm_backward",
    .inputs =
        {{"x"}, {"weight"}, {"rstd"}, {"dy"}, {"acc_x", true}, {"acc_weight", true}, {"rng", true}},
    .outputs = {{"dx", true},
                {"dweight", true},
                {"dropped", true},
                {"largest_dx", true},
                {"largest_dropped", true}},
    .infer = &InferRmsNormBackward,
    .gradient = {},
    .cost = FlopsPerElement(11),
    .in_place = {{3, 0}, {4, 0}, {5, 1}, {0, 2}, {3, 2}, {4, 2}},
    .random = true,
    .finds_largest = {0, 2},
});
const CudaWorkspaceRegistration kBackwardWorkspace("rms_norm_backward", [](const OpCall& call) {
  return NormPartialsBytes(call.input(0), int{call.has_output(1)});
});

}  // namespace

Value RmsNorm(graph::Builder& g, Value x, Value weight, double eps, std::string_view name,
              bool unit_offset) {
  graph::Attributes attributes = {{"eps", eps}};
  if (unit_offset) attributes.Set("unit_offset", true);
  return g.Emit1("rms_norm", {x, weight}, std::move(attributes), name);
}

}  // namespace plimsoll::ops
