#include "ops/linear/quantize_activation.h"

#include <string>
#include <vector>

#include "graph/op.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/linear/quantize_workspace.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::OpCall;
using graph::OpRegistry;
using graph::TensorType;

constexpr size_t kA = 0, kDy = 1, kAccSums = 2, kExpected = 3;  // inputs

// The call of the activation, as its own op.
OpCall ActivationOf(const OpCall& call) {
  const std::string& of = call.attributes.GetWord("of");
  Check(IsQuantizedActivation(of), call, "makes no codes of '" + of + "'");
  const graph::OpDef& op = OpRegistry::Get().Require(of);
  Check(call.has_input(kDy) == (op.inputs.size() > kDy), call, "gradients, and no others, need dy");
  return {op, call.inputs.first(op.inputs.size()), {}, call.attributes};
}

std::vector<TensorType> Infer(const OpCall& call) {
  const OpCall activation = ActivationOf(call);
  const TensorType y = activation.op.infer(activation).at(0);
  const TensorType number{DType::kFloat32, {}};
  const TensorType* const acc_sums = call.has_input(kAccSums) ? &call.input(kAccSums) : nullptr;
  const TensorType* const inputs[] = {&y, &number, acc_sums, &call.input(kExpected)};
  const graph::OpDef& quantize = OpRegistry::Get().Require("quantize");
  std::vector<TensorType> types = quantize.infer({quantize, inputs, {}, call.attributes});
  types.push_back(number);
  return types;
}

graph::Cost CostOfBoth(const OpCall& call) {
  const std::string& of = call.attributes.GetWord("of");
  const TensorType y = QuantizedActivationType(of, call.input(kA));
  const double flops = graph::CostOf(ActivationOf(call)).flops;
  return {flops + 2 * static_cast<double>(y.shape.elements()), ArgumentBytes(call)};
}

const graph::OpRegistration kQuantizeActivation({
    .name = "quantize_activation",
    .inputs = {{"a"}, {"dy", true}, {"acc_sums", true}, {"expected"}},
    .outputs =
        {{"transposed", true}, {"codes", true}, {"scale", true}, {"sums", true}, {"largest", true}},
    .infer = &Infer,
    .gradient = {},
    .cost = &CostOfBoth,
    .in_place = {{kAccSums, 3}},
    .cheap_to_recompute = true,
    .recompute_preset = "activations",
});

const CudaWorkspaceRegistration kWorkspace("quantize_activation", &QuantizeActivationWorkspace);

}  // namespace
}  // namespace plimsoll::ops
