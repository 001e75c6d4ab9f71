#include "ops/loss/squared_error.h"

#include <vector>

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::OpCall;
using graph::TensorType;

// Checks predictions, weight and targets, and returns the type of the loss.
TensorType CheckPredictions(const OpCall& call) {
  const TensorType& predictions = call.input(0);
  Check(graph::IsFloat(predictions.dtype), call, "predictions must be floating");
  CheckFloat32Scalar(call, 1);
  Check(call.input(2) == TensorType{DType::kFloat32, predictions.shape}, call,
        "targets must be f32, one for each prediction");
  return {graph::ComputeType(predictions.dtype), {}};
}

std::vector<TensorType> InferSquaredError(const OpCall& call) {
  return {CheckPredictions(call), {DType::kFloat32, {2, kMoments}}};
}

void SquaredErrorGradient(graph::GradientContext& context) {
  if (!context.wants(0)) return;
  context.SetGradient(0, context.builder().Emit1("squared_error_backward",
                                                 {context.input(0), context.input(1),
                                                  context.input(2), context.output_gradient(0)}));
}

std::vector<TensorType> InferSquaredErrorBackward(const OpCall& call) {
  Check(call.input(3) == CheckPredictions(call), call,
        "dloss must be a scalar in the compute type of predictions");
  return {call.input(0)};
}

const graph::OpRegistration kForward({
    .name = "squared_error",
    .inputs = {{"predictions"}, {"weight"}, {"targets"}},
    .outputs = {{"loss"}, {"moments", true}},
    .infer = &InferSquaredError,
    .gradient = &SquaredErrorGradient,
    .cost = FlopsPerElement(12),
    .precision = {.precision = graph::Precision::kFloat32,
                  .reason = "a sum of squares, and a loss that is read as it is",
                  .float32_inputs = {2}},
});

const graph::OpRegistration kBackward({
    .name = "squared_error_backward",
    .inputs = {{"predictions"}, {"weight"}, {"targets"}, {"dloss"}},
    .outputs = {{"dpredictions"}},
    .infer = &InferSquaredErrorBackward,
    .gradient = {},
    .cost = FlopsPerElement(4),
    .in_place = {{0, 0}},
});

}  // namespace

SquaredErrorSums SquaredError(graph::Builder& g, graph::Value predictions, graph::Value weight,
                              graph::Value targets, std::string_view name) {
  const std::vector<graph::Value> results =
      g.Emit("squared_error", {predictions, weight, targets}, {}, name);
  return {results[0], results[1]};
}

}  // namespace plimsoll::ops
