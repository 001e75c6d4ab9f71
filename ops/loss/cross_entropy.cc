#include "ops/loss/cross_entropy.h"

#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

// Checks logits and targets, and returns the type of lse.
TensorType CheckRows(const OpCall& call) {
  const TensorType& logits = call.input(0);
  Check(graph::IsFloat(logits.dtype) && logits.shape.rank() >= 1 && logits.shape.dim(-1) >= 1, call,
        "logits must be floating, [...,C]");
  Check(call.input(1) == TensorType{DType::kInt32, logits.shape.DropLast()}, call,
        "targets must be i32, one for each row of logits");
  return {graph::ComputeType(logits.dtype), {logits.shape.rows()}};
}

// Checks targets_b and its weight, which are both present or both absent.
void CheckSecond(const OpCall& call, size_t targets_b) {
  const size_t weight = targets_b + 1;
  Check(call.has_input(targets_b) == call.has_input(weight), call,
        "targets_b and weight go together");
  if (!call.has_input(targets_b)) return;
  Check(call.input(targets_b) == call.input(1), call, "targets_b must be as targets");
  Check(call.input(weight) == TensorType{DType::kFloat32, call.input(1).shape}, call,
        "weight must be f32, one for each row of logits");
}

std::vector<TensorType> InferLoss(const OpCall& call) {
  const TensorType lse = CheckRows(call);
  CheckFloat32Scalar(call, 2);
  CheckSecond(call, 3);
  return {{lse.dtype, {}}, lse};
}

void LossGradient(GradientContext& context) {
  if (!context.wants(0)) return;
  std::vector<Value> inputs = {context.input(0), context.input(1), context.input(2),
                               context.output(1), context.output_gradient(0)};
  if (context.input(3) != graph::kNoTensor) {
    inputs.insert(inputs.end(), {context.input(3), context.input(4)});
  }
  context.SetGradient(0, context.builder().Emit1("cross_entropy_backward", std::move(inputs),
                                                 context.attributes()));
}

std::vector<TensorType> InferLossBackward(const OpCall& call) {
  const TensorType lse = CheckRows(call);
  CheckFloat32Scalar(call, 2);
  Check(call.input(3) == lse, call, "lse must be [rows] in the compute type of logits");
  Check(call.input(4) == TensorType{lse.dtype, {}}, call, "dloss must be a scalar");
  CheckSecond(call, 5);
  return {call.input(0)};
}

std::vector<TensorType> InferTopK(const OpCall& call) {
  CheckRows(call);
  Check(call.attributes.GetInt("k") >= 1, call, "k is below 1");
  return {{DType::kInt32, {}}, {DType::kInt32, {}}};
}

const OpRegistration kCrossEntropy({
    .name = "cross_entropy",
    .inputs = {{"logits"}, {"targets"}, {"scale"}, {"targets_b", true}, {"weight", true}},
    .outputs = {{"loss"}, {"lse", true}},
    .infer = &InferLoss,
    .gradient = &LossGradient,
    .cost = FlopsPerElement(5),
    .precision = {Precision::kFloat32, "sums of exponentials and a loss that is read as it is"},
});

const OpRegistration kCrossEntropyBackward({
    .name = "cross_entropy_backward",
    .inputs = {{"logits"},
               {"targets"},
               {"scale"},
               {"lse"},
               {"dloss"},
               {"targets_b", true},
               {"weight", true}},
    .outputs = {{"dlogits"}},
    .infer = &InferLossBackward,
    .gradient = {},
    .cost = FlopsPerElement(4),
    .in_place = {{0, 0}},
});

const OpRegistration kCountTopK({
    .name = "count_top_k",
    .inputs = {{"logits"}, {"targets"}},
    .outputs = {{"right"}, {"rows"}},
    .infer = &InferTopK,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .precision = {Precision::kAsInput, "compares"},
});

// The workspace holds the loss of each row, before the losses are added in the order of rows.
const CudaWorkspaceRegistration kCrossEntropyWorkspace("cross_entropy", [](const OpCall& call) {
  return call.input(0).shape.rows() * static_cast<int64_t>(sizeof(float));
});

}  // namespace

Value CrossEntropy(graph::Builder& g, Value logits, Value targets, Value scale,
                   double label_smoothing, std::string_view name, const SecondLabels& second) {
  std::vector<Value> inputs = {logits, targets, scale};
  if (second.targets != graph::kNoTensor) {
    inputs.insert(inputs.end(), {second.targets, second.weight});
  }
  return g.Emit1("cross_entropy", std::move(inputs), {{"label_smoothing", label_smoothing}}, name);
}

TopK CountTopK(graph::Builder& g, Value logits, Value targets, int64_t k, std::string_view name) {
  const std::vector<Value> outputs = g.Emit("count_top_k", {logits, targets}, {{"k", k}}, name);
  return {outputs[0], outputs[1]};
}

}  // namespace plimsoll::ops
