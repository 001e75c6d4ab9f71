#include "ops/linear/quantize_activation.h"

#include <array>
#include <span>
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

constexpr size_t kA = 0, kDy = 1, kAccSums = 2, kExpected = 3, kAScale = 4;  // inputs

// The op that computes the activation alone, on numbers.
class Activation {
 public:
  explicit Activation(const OpCall& call)
      : call_(call), a_(NumbersOfActivation(call.input(kA), call.attributes)) {
    const std::string& of = call.attributes.GetWord("of");
    Check(IsQuantizedActivation(of), call, "makes no codes of '" + of + "'");
    op_ = &OpRegistry::Get().Require(of);
    Check(call.has_input(kDy) == (op_->inputs.size() > kDy), call,
          "gradients, and no others, need dy");
    inputs_ = {&a_, call.has_input(kDy) ? &call.input(kDy) : nullptr};
  }
  Activation(const Activation&) = delete;

  OpCall Call() const {
    return {*op_, std::span(inputs_).first(op_->inputs.size()), {}, call_.attributes};
  }

 private:
  const OpCall& call_;
  const TensorType a_;
  const graph::OpDef* op_ = nullptr;
  std::array<const TensorType*, 2> inputs_ = {};
};

void CheckCodes(const OpCall& call) {
  const bool coded = graph::IsFloat8(call.input(kA).dtype);
  Check(coded == call.has_input(kAScale), call, "codes, and no numbers, need a_scale");
  if (!coded) return;
  Check(call.input(kA).dtype == DType::kFloat8E4M3, call, "takes codes in e4m3");
  CheckFloat32Scalar(call, kAScale);
  const auto numbers = graph::ParseDType(call.attributes.GetWord("a_dtype"));
  Check(numbers && graph::IsLowPrecision(*numbers), call, "a_dtype is neither bf16 nor f16");
}

std::vector<TensorType> Infer(const OpCall& call) {
  CheckCodes(call);
  const Activation activation(call);
  const TensorType y = activation.Call().op.infer(activation.Call()).at(0);
  const TensorType number{DType::kFloat32, {}};
  const TensorType* const acc_sums = call.has_input(kAccSums) ? &call.input(kAccSums) : nullptr;
  const TensorType* const inputs[] = {&y, &number, acc_sums, &call.input(kExpected)};
  const graph::OpDef& quantize = OpRegistry::Get().Require("quantize");
  std::vector<TensorType> types = quantize.infer({quantize, inputs, {}, call.attributes});
  types.push_back(number);
  return types;
}

graph::Cost CostOfBoth(const OpCall& call) {
  const TensorType y = QuantizedActivationType(call.attributes.GetWord("of"), call.input(kA));
  const double flops = graph::CostOf(Activation(call).Call()).flops;
  return {flops + 2 * static_cast<double>(y.shape.elements()), ArgumentBytes(call)};
}

const graph::OpRegistration kQuantizeActivation({
    .name = "quantize_activation",
    .inputs = {{"a"}, {"dy", true}, {"acc_sums", true}, {"expected"}, {"a_scale", true}},
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
