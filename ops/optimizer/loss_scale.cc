#include "ops/optimizer/loss_scale.h"

#include "base/error.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::kNoTensor;
using graph::OpCall;
using graph::OpRegistration;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferLossScaleStep(const OpCall& call) {
  CheckFloat32Scalar(call, 0);
  CheckFloat32Scalar(call, 1);
  const TensorType counter{DType::kInt32, {}}, counters{DType::kInt32, {2}};
  Check(call.input(2) == counter, call, "tracker must be i32[]");
  Check(call.input(3) == counters, call, "skipped must be i32[2]");
  Check(call.has_input(4) == call.has_input(5), call, "loss and limit come together");
  for (const size_t input : {4, 5}) {
    if (call.has_input(input)) CheckFloat32Scalar(call, input);
  }
  Check(call.attributes.GetReal("growth_factor") >= 1, call, "growth_factor is below 1");
  const double backoff = call.attributes.GetReal("backoff_factor");
  Check(backoff > 0 && backoff < 1, call, "backoff_factor is not between 0 and 1");
  Check(call.attributes.GetInt("growth_interval") >= 1, call, "growth_interval is below 1");
  Check(call.attributes.GetReal("min_scale") > 0, call, "min_scale is not positive");
  const TensorType scalar{DType::kFloat32, {}};
  return {scalar, scalar, counter, scalar, counter, counters};
}

const OpRegistration kLossScaleStep({
    .name = "loss_scale_step",
    .inputs = {{"norm"}, {"scale"}, {"tracker"}, {"skipped"}, {"loss", true}, {"limit", true}},
    .outputs = {{"grad_norm"}, {"inverse"}, {"apply"}, {"scale"}, {"tracker"}, {"skipped"}},
    .infer = &InferLossScaleStep,
    .gradient = {},
    .cost = FlopsPerElement(3),
    .in_place = {{1, 3}, {2, 4}, {3, 5}},
});

}  // namespace

LossScaleStep EmitLossScaleStep(graph::Builder& g, Value norm, Value scale, Value tracker,
                                Value skipped, Value grad_norm_metric,
                                const LossScaleOptions& options, const UpdateLimits& limits) {
  for (Value state : {scale, tracker, skipped}) {
    if (!g.program().tensor(state).persistent) {
      throw InternalError("loss_scale_step: '" + g.program().tensor(state).name +
                          "' is updated in place but not persistent");
    }
  }
  std::vector<Value> inputs = {norm, scale, tracker, skipped};
  graph::Attributes attributes = {{"dynamic", options.dynamic},
                                  {"growth_factor", options.growth_factor},
                                  {"backoff_factor", options.backoff_factor},
                                  {"growth_interval", options.growth_interval},
                                  {"min_scale", options.min_scale}};
  if (limits.loss != kNoTensor) {
    inputs.insert(inputs.end(), {limits.loss, limits.limit});
    SetLargestNorm(attributes, limits);
  }
  const bool fresh_norm = grad_norm_metric == kNoTensor;
  std::vector<Value> outputs = g.Emit("loss_scale_step", std::move(inputs), std::move(attributes),
                                      "", {fresh_norm, true, true, false, false, false});
  if (!fresh_norm) outputs[0] = grad_norm_metric;
  outputs[3] = scale;
  outputs[4] = tracker;
  outputs[5] = skipped;
  g.program().mutable_nodes().back().outputs = outputs;
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace plimsoll::ops
