#include "ops/loss/preference_loss.h"

#include <string>
#include <vector>

#include "graph/gradient.h"
#include "graph/op.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"

namespace plimsoll::ops {

PreferenceOutputs PreferenceLoss(graph::Builder& g, const PreferenceInputs& in,
                                 const PreferenceOptions& options, std::string_view name) {
  const std::vector<graph::Value> outputs =
      g.Emit("preference_loss", {in.logp, in.targets, in.positions, in.reference, in.scale},
             {{"loss", std::string(options.loss == Preference::kDpo ? "dpo" : "ipo")},
              {"beta", options.beta},
              {"label_smoothing", options.label_smoothing},
              {"sft_weight", options.sft_weight}},
             name);
  return {.loss = outputs[0],
          .pairs = outputs[1],
          .rewards_chosen = outputs[2],
          .rewards_rejected = outputs[3],
          .rewards_margins = outputs[4],
          .rewards_accuracies = outputs[5],
          .logps_chosen = outputs[6],
          .logps_rejected = outputs[7]};
}

CudaPreferenceLayout LayOutCudaPreferences(int64_t rows, int64_t tokens) {
  constexpr int64_t kSums = 8;  // number of sums of a row
  CudaPreferenceLayout layout{};
  layout.begins_at = rows * kSums * int64_t{sizeof(double)};
  layout.bytes = layout.begins_at + rows * (tokens + 1) * int64_t{sizeof(int32_t)};
  return layout;
}

namespace {

using graph::Check;
using graph::DType;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

constexpr size_t kScalars = 8;  // number of outputs of preference_loss

// Checks the inputs that both ops have, and the attributes.
void CheckPairs(const OpCall& call) {
  const TensorType& logp = call.input(0);
  Check((logp.dtype == DType::kFloat32 || logp.dtype == DType::kFloat64) && logp.shape.rank() == 2,
        call, "logp must be f32 or f64, [B,T]");
  for (const size_t ids : {1, 2}) {
    Check(call.input(ids) == TensorType{DType::kInt32, logp.shape}, call,
          "targets and positions must be i32, of logp's shape");
  }
  Check(call.input(3) == TensorType{DType::kFloat32, logp.shape}, call,
        "reference must be f32, of logp's shape");
  CheckFloat32Scalar(call, 4);
  const std::string& loss = call.attributes.GetWord("loss");
  Check(loss == "dpo" || loss == "ipo", call, "loss must be dpo or ipo");
  Check(call.attributes.GetReal("beta") > 0, call, "beta must be above 0");
  const double smoothing = call.attributes.GetReal("label_smoothing");
  Check(smoothing >= 0 && smoothing < 0.5, call, "label_smoothing must be from 0 and below 0.5");
  Check(call.attributes.GetReal("sft_weight") >= 0, call, "sft_weight must not be negative");
}

std::vector<TensorType> InferLoss(const OpCall& call) {
  CheckPairs(call);
  return std::vector<TensorType>(kScalars, {call.input(0).dtype, {}});
}

void LossGradient(GradientContext& context) {
  const Value dloss = context.output_gradient(0);
  if (!context.wants(0) || dloss == graph::kNoTensor) return;
  context.SetGradient(0,
                      context.builder().Emit1("preference_loss_backward",
                                              {context.input(0), context.input(1), context.input(2),
                                               context.input(3), context.input(4), dloss},
                                              context.attributes()));
}

std::vector<TensorType> InferBackward(const OpCall& call) {
  CheckPairs(call);
  Check(call.input(5) == TensorType{call.input(0).dtype, {}}, call,
        "dloss must be a scalar of logp's type");
  return {call.input(0)};
}

const OpRegistration kLoss({
    .name = "preference_loss",
    .inputs = {{"logp"}, {"targets"}, {"positions"}, {"reference"}, {"scale"}},
    .outputs = {{"loss"},
                {"pairs", true},
                {"rewards_chosen", true},
                {"rewards_rejected", true},
                {"rewards_margins", true},
                {"rewards_accuracies", true},
                {"logps_chosen", true},
                {"logps_rejected", true}},
    .infer = &InferLoss,
    .gradient = &LossGradient,
    .cost = FlopsPerElement(2),
    .precision = {Precision::kFloat32, "sums over all tokens of a text"},
});

const OpRegistration kBackward({
    .name = "preference_loss_backward",
    .inputs = {{"logp"}, {"targets"}, {"positions"}, {"reference"}, {"scale"}, {"dloss"}},
    .outputs = {{"dlogp"}},
    .infer = &InferBackward,
    .gradient = {},
    .cost = FlopsPerElement(4),
    .in_place = {{0, 0}},
});

int64_t CudaWorkspace(const OpCall& call) {
  const graph::Shape& logp = call.input(0).shape;
  return LayOutCudaPreferences(logp.dim(0), logp.dim(1)).bytes;
}

const CudaWorkspaceRegistration kLossWorkspace("preference_loss", &CudaWorkspace);
const CudaWorkspaceRegistration kBackwardWorkspace("preference_loss_backward", &CudaWorkspace);

}  // namespace
}  // namespace plimsoll::ops
