#include "ops/elementwise/gelu.h"

#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/reductions/cuda_column_sums.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::Shape;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

void CheckApproximate(const OpCall& call) {
  const std::string& approximate = call.attributes.GetWord("approximate");
  Check(approximate == "tanh" || approximate == "none", call, "approximate must be tanh or none");
}

std::vector<TensorType> InferGelu(const OpCall& call) {
  CheckApproximate(call);
  return LikeFloatInput0(call);
}

std::vector<TensorType> InferGeluBackward(const OpCall& call) {
  CheckApproximate(call);
  return LikeEqualFloatInputs(call);
}

std::vector<TensorType> InferGeluWithBackward(const OpCall& call) {
  CheckApproximate(call);
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() >= 1 && call.input(1) == x, call,
        "x and dy must be floating, [...,N], of one type");
  const TensorType dbias{graph::ComputeType(x.dtype), {x.shape.dim(-1)}};
  CheckAbsentOr(call, 2, dbias);
  return {x, x, dbias};
}

graph::Cost GeluWithBackwardCost(const OpCall& call) {
  const double flops = 18 + (call.has_output(0) ? 2 : 0) + (call.has_output(2) ? 1 : 0);
  return {flops * static_cast<double>(call.input(0).shape.elements()), ArgumentBytes(call)};
}

int64_t GeluWithBackwardCudaWorkspace(const OpCall& call) {
  const Shape& x = call.input(0).shape;
  return call.has_output(2) ? ColumnSumsBytes(x.rows(), x.dim(-1)) : 0;
}

void GeluGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(0, ctx.builder().Emit1("gelu_backward", {ctx.input(0), ctx.output_gradient(0)},
                                         ctx.attributes()));
}

const OpRegistration kGelu({
    .name = "gelu",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferGelu,
    .gradient = &GeluGradient,
    .cost = FlopsPerElement(10),
    .in_place = {{0, 0}},
    .precision = {Precision::kLowStorage, "computed in float32, rounded once"},
    .sharding = {.follows = ShardingRule::kElements},
    .cheap_to_recompute = true,
    .recompute_preset = "activations",
});

const OpRegistration kGeluBackward({
    .name = "gelu_backward",
    .inputs = {{"x"}, {"dy"}},
    .outputs = {{"dx"}},
    .infer = &InferGeluBackward,
    .gradient = {},
    .cost = FlopsPerElement(18),
    .in_place = {{0, 0}, {1, 0}},
});

const OpRegistration kGeluWithBackward({
    .name = "gelu_with_backward",
    .inputs = {{"x"}, {"dy"}, {"acc_bias", true}},
    .outputs = {{"y", true}, {"dx"}, {"dbias", true}},
    .infer = &InferGeluWithBackward,
    .gradient = {},
    .cost = &GeluWithBackwardCost,
    .in_place = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 2}},
});

const CudaWorkspaceRegistration kWorkspace("gelu_with_backward", &GeluWithBackwardCudaWorkspace);

}  // namespace

Value Gelu(graph::Builder& g, Value x, std::string_view approximate, std::string_view name) {
  return g.Emit1("gelu", {x}, {{"approximate", std::string(approximate)}}, name);
}

}  // namespace plimsoll::ops
