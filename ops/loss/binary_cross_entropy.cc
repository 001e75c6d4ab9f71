#include "ops/loss/binary_cross_entropy.h"

#include <utility>
#include <vector>

#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/reductions/sum_chunks.h"

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

// Checks logits, weight, targets (the input `targets`, or the attribute) and labels (the input
// after `targets`). Returns the type of the loss.
TensorType CheckBinaryLogits(const OpCall& call, size_t targets) {
  const TensorType& logits = call.input(0);
  Check(graph::IsFloat(logits.dtype), call, "logits must be floating");
  CheckFloat32Scalar(call, 1);
  CheckAbsentOr(call, targets, {DType::kFloat32, logits.shape});
  Check(call.has_input(targets) != call.attributes.Has("target"), call,
        "needs either targets or the attribute target");
  if (call.has_input(targets + 1)) {
    Check(logits.shape.rank() > 0, call, "labels need logits [B,...]");
    CheckAbsentOr(call, targets + 1, {DType::kInt32, {logits.shape.dim(0)}});
  }
  if (!call.has_input(targets)) {
    const double target = call.attributes.GetReal("target");
    Check(target >= 0 && target <= 1, call, "target must be within [0, 1]");
  }
  return {graph::ComputeType(logits.dtype), {}};
}

std::vector<TensorType> InferBinaryLoss(const OpCall& call) {
  return {CheckBinaryLogits(call, 2), {DType::kInt32, {}}, {DType::kInt32, {}}};
}

void BinaryLossGradient(GradientContext& context) {
  if (!context.wants(0)) return;
  context.SetGradient(
      0, context.builder().Emit1("binary_cross_entropy_with_logits_backward",
                                 {context.input(0), context.input(1), context.output_gradient(0),
                                  context.input(2), context.input(3)},
                                 context.attributes()));
}

std::vector<TensorType> InferBinaryLossBackward(const OpCall& call) {
  const TensorType loss = CheckBinaryLogits(call, 3);
  Check(call.input(2) == loss, call, "dloss must be a scalar in the compute type of logits");
  return {call.input(0)};
}

const OpRegistration kBinaryLoss({
    .name = "binary_cross_entropy_with_logits",
    .inputs = {{"logits"}, {"weight"}, {"targets", true}, {"labels", true}},
    .outputs = {{"loss"}, {"right", true}, {"counted", true}},
    .infer = &InferBinaryLoss,
    .gradient = &BinaryLossGradient,
    .cost = FlopsPerElement(8),
    .precision = {.precision = Precision::kLowStorage,
                  .reason = "exponentials, the sum and the loss itself stay in float32",
                  .float32_inputs = {2}},
});

const OpRegistration kBinaryLossBackward({
    .name = "binary_cross_entropy_with_logits_backward",
    .inputs = {{"logits"}, {"weight"}, {"dloss"}, {"targets", true}, {"labels", true}},
    .outputs = {{"dlogits"}},
    .infer = &InferBinaryLossBackward,
    .gradient = {},
    .cost = FlopsPerElement(8),
    .in_place = {{0, 0}},
});

// The workspace holds a sum and two counts for each chunk.
const CudaWorkspaceRegistration kBinaryLossWorkspace(
    "binary_cross_entropy_with_logits", [](const OpCall& call) {
      return SumChunks(call.input(0).shape.elements()) *
             int64_t{sizeof(float) + 2 * sizeof(int32_t)};
    });

BinaryCrossEntropy EmitBinaryLoss(graph::Builder& g, std::vector<Value> inputs,
                                  graph::Attributes attributes, std::string_view name) {
  while (inputs.back() == graph::kNoTensor) inputs.pop_back();
  const std::vector<Value> results =
      g.Emit("binary_cross_entropy_with_logits", std::move(inputs), std::move(attributes), name);
  return {results[0], results[1], results[2]};
}

}  // namespace

BinaryCrossEntropy BinaryCrossEntropyWithLogits(graph::Builder& g, Value logits, Value weight,
                                                double target, std::string_view name,
                                                Value labels) {
  return EmitBinaryLoss(g, {logits, weight, graph::kNoTensor, labels}, {{"target", target}}, name);
}

BinaryCrossEntropy BinaryCrossEntropyOfTargets(graph::Builder& g, Value logits, Value weight,
                                               Value targets, std::string_view name, Value labels) {
  return EmitBinaryLoss(g, {logits, weight, targets, labels}, {}, name);
}

}  // namespace plimsoll::ops
