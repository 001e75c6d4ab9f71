#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/norms/norm_dropout.h"
#include "ops/norms/norm_partials.h"
#include "ops/norms/norms.h"

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

std::vector<TensorType> InferLayerNorm(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() >= 1, call, "x must be floating, [...,D]");
  const TensorType weight{x.dtype, {x.shape.dim(-1)}};
  Check(call.input(1) == weight, call, "weight must be [D]");
  CheckAbsentOr(call, 2, weight);
  const TensorType statistic{graph::ComputeType(x.dtype), {x.shape.rows()}};
  return WithLargest(call, {x, statistic, statistic});
}

void LayerNormGradient(GradientContext& ctx) {
  const std::vector<bool> want = {ctx.wants(0), ctx.wants(1), ctx.wants(2)};
  if (!want[0] && !want[1] && !want[2]) return;
  std::vector<Value> inputs = {ctx.input(0), ctx.input(1), ctx.output(1), ctx.output(2),
                               ctx.output_gradient(0)};
  for (size_t i = 0; i < 3; ++i) inputs.push_back(want[i] ? ctx.TakePartial(i) : graph::kNoTensor);
  const std::vector<Value> gradients =
      ctx.builder().Emit("layer_norm_backward", inputs, {}, "", want);
  for (size_t i = 0; i < 3; ++i) {
    if (want[i]) ctx.SetGradient(i, gradients[i]);
  }
}

std::vector<TensorType> InferLayerNormBackward(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() >= 1, call, "x must be floating, [...,D]");
  const TensorType weight{x.dtype, {x.shape.dim(-1)}};
  const TensorType dweight{graph::ComputeType(x.dtype), weight.shape};
  const TensorType statistic{graph::ComputeType(x.dtype), {x.shape.rows()}};
  Check(call.input(1) == weight, call, "weight must be [D]");
  Check(call.input(2) == statistic && call.input(3) == statistic, call,
        "mean and rstd must be [rows]");
  Check(call.input(4) == x, call, "dy must be as x");
  CheckAbsentOr(call, 5, x);
  CheckAbsentOr(call, 6, dweight);
  CheckAbsentOr(call, 7, dweight);
  return WithDropped(call, 8, {x, dweight, dweight});
}

const OpRegistration kLayerNorm({
    .name = "layer_norm",
    .inputs = {{"x"}, {"weight"}, {"bias", true}},
    .outputs = {{"y"}, {"mean", true}, {"rstd", true}, {"largest", true}},
    .infer = &InferLayerNorm,
    .gradient = &LayerNormGradient,
    .cost = FlopsPerElement(8),
    .in_place = {{0, 0}},
    .precision = {Precision::kLowStorage, "mean, variance and their sums stay in float32"},
    .sharding = {.follows = ShardingRule::kRows},
    .cheap_to_recompute = true,
    .recompute_preset = "norms",
    .finds_largest = {0},
});

const OpRegistration kLayerNormBackward({
    .name = "layer_norm_backward",
    .inputs = {{"x"},
               {"weight"},
               {"mean"},
               {"rstd"},
               {"dy"},
               {"acc_x", true},
               {"acc_weight", true},
               {"acc_bias", true},
               {"rng", true}},
    .outputs = {{"dx", true},
                {"dweight", true},
                {"dbias", true},
                {"dropped", true},
                {"largest_dx", true},
                {"largest_dropped", true}},
    .infer = &InferLayerNormBackward,
    .gradient = {},
    .cost = FlopsPerElement(16),
    .in_place = {{4, 0}, {5, 0}, {6, 1}, {7, 2}, {0, 3}, {4, 3}, {5, 3}},
    .random = true,
    .finds_largest = {0, 3},
});
const CudaWorkspaceRegistration kBackwardWorkspace("layer_norm_backward", [](const OpCall& call) {
  return NormPartialsBytes(call.input(0), int{call.has_output(1)} + int{call.has_output(2)});
});

}  // namespace

Value LayerNorm(graph::Builder& g, Value x, Value weight, Value bias, double eps,
                std::string_view name) {
  return g.Emit1("layer_norm", {x, weight, bias}, {{"eps", eps}}, name);
}

}  // namespace plimsoll::ops
