// layer_norm_with_backward and rms_norm_with_backward: a recomputed norm and its backward op in one
// op. FuseRecomputedNorms (ops/fusions.h) creates them. The operands are those of the backward op,
// including the statistics, and the norm's bias; the results are y and those of the backward op.
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/norms/norm_dropout.h"
#include "ops/norms/norm_partials.h"
#include "ops/norms/unit_offset.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::OpCall;
using graph::OpRegistration;
using graph::TensorType;

// Types that both ops use.
struct Types {
  TensorType x, weight, dweight, statistic;

  explicit Types(const OpCall& call) : x(call.input(0)) {
    Check(graph::IsFloat(x.dtype) && x.shape.rank() >= 1, call, "x must be floating, [...,D]");
    weight = {x.dtype, {x.shape.dim(-1)}};
    dweight = {graph::ComputeType(x.dtype), weight.shape};
    statistic = {graph::ComputeType(x.dtype), {x.shape.rows()}};
    Check(call.input(1) == weight, call, "weight must be [D]");
  }
};

std::vector<TensorType> InferLayerNorm(const OpCall& call) {
  const Types types(call);
  CheckAbsentOr(call, 2, types.weight);
  Check(call.input(3) == types.statistic && call.input(4) == types.statistic, call,
        "mean and rstd must be [rows]");
  Check(call.input(5) == types.x, call, "dy must be as x");
  CheckAbsentOr(call, 6, types.x);
  CheckAbsentOr(call, 7, types.dweight);
  CheckAbsentOr(call, 8, types.dweight);
  return WithDropped(call, 9, {types.x, types.x, types.dweight, types.dweight});
}

std::vector<TensorType> InferRmsNorm(const OpCall& call) {
  const Types types(call);
  Check(call.input(2) == types.statistic, call, "rstd must be [rows]");
  Check(call.input(3) == types.x, call, "dy must be as x");
  CheckAbsentOr(call, 4, types.x);
  CheckAbsentOr(call, 5, types.dweight);
  return WithDropped(call, 6, {types.x, types.x, types.dweight});
}

const OpRegistration kLayerNorm({
    .name = "layer_norm_with_backward",
    .inputs = {{"x"},
               {"weight"},
               {"bias", true},
               {"mean"},
               {"rstd"},
               {"dy"},
               {"acc_x", true},
               {"acc_weight", true},
               {"acc_bias", true},
               {"rng", true}},
    .outputs = {{"y"},
                {"dx", true},
                {"dweight", true},
                {"dbias", true},
                {"dropped", true},
                {"largest_y", true},
                {"largest_dx", true},
                {"largest_dropped", true}},
    .infer = &InferLayerNorm,
    .gradient = {},
    .cost = FlopsPerElement(19),
    .in_place = {{5, 1}, {6, 1}, {7, 2}, {8, 3}, {0, 4}, {5, 4}, {6, 4}},
    .random = true,
    .finds_largest = {0, 1, 4},
});
const CudaWorkspaceRegistration kLayerNormWorkspace(
    "layer_norm_with_backward", [](const OpCall& call) {
      return NormPartialsBytes(call.input(0), int{call.has_output(2)} + int{call.has_output(3)});
    });

const OpRegistration kRmsNorm({
    .name = "rms_norm_with_backward",
    .inputs =
        {{"x"}, {"weight"}, {"rstd"}, {"dy"}, {"acc_x", true}, {"acc_weight", true}, {"rng", true}},
    .outputs = {{"y"},
                {"dx", true},
                {"dweight", true},
                {"dropped", true},
                {"largest_y", true},
                {"largest_dx", true},
                {"largest_dropped", true}},
    .infer = &InferRmsNorm,
    .gradient = {},
    .cost = FlopsPerElement(13),
    .in_place = {{3, 1}, {4, 1}, {5, 2}, {0, 3}, {3, 3}, {4, 3}},
    .random = true,
    .finds_largest = {0, 1, 3},
});
const CudaWorkspaceRegistration kRmsNormWorkspace("rms_norm_with_backward", [](const OpCall& call) {
  return NormPartialsBytes(call.input(0), int{call.has_output(2)});
});

}  // namespace
}  // namespace plimsoll::ops
