#include "ops/loss/linear_log_probs.h"

#include <string>
#include <utility>
#include <vector>

#include "graph/op.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/loss/linear_loss_call.h"

namespace plimsoll::ops {

using graph::kNoTensor;
using graph::Value;

Value LinearLogProbs(graph::Builder& g, Value x, Value weight, Value targets, Value bias,
                     std::string_view name, double softcap) {
  std::vector<Value> inputs = {x, weight, targets};
  if (bias != kNoTensor) inputs.push_back(bias);
  graph::Attributes attributes;
  if (softcap != 0) attributes.Set("softcap", softcap);
  return g.Emit1("linear_log_probs", inputs, std::move(attributes), name);
}

namespace {

using graph::Check;
using graph::CostClass;
using graph::OpCall;
using graph::Precision;
using graph::ShardingRule;
using graph::TensorType;
using linear_loss::BiasGradient;
using linear_loss::CheckLinearLoss;
using linear_loss::CudaLossWorkspace;
using linear_loss::kAbsent;
using linear_loss::LossCost;
using linear_loss::Rows;
using linear_loss::WeightGradient;

// The type of logp and dlogp.
TensorType LogProbs(const OpCall& call) {
  return {graph::ComputeType(call.input(0).dtype), call.input(2).shape};
}

const graph::OpRegistration kForward({
    .name = "linear_log_probs",
    .inputs = {{"x"}, {"weight"}, {"targets"}, {"bias", true}},
    .outputs = {{"logp"}, {"lse", true}},
    .infer =
        [](const OpCall& call) {
          CheckLinearLoss(call, 3);
          return std::vector<TensorType>{LogProbs(call), Rows(call)};
        },
    .gradient =
        [](graph::GradientContext& context) {
          linear_loss::LinearLossGradient<3>("linear_log_probs", context);
        },
    .cost = [](const OpCall& call) { return LossCost(call, 1, 0, 1); },
    .precision = {Precision::kLow, "low operands; logits, softmax and results stay in float32",
                  /*tf32=*/true},
    .cost_class = CostClass::kProducts,
    .sharding = {.split_weight = ShardingRule::kReduction, .weight = 1},
});

const graph::OpRegistration kBackward({
    .name = "linear_log_probs_backward",
    .inputs = {{"x"},
               {"weight"},
               {"targets"},
               {"lse"},
               {"dlogp"},
               {"acc_weight", true},
               {"bias", true},
               {"acc_bias", true},
               {"rng", true}},
    .outputs = {{"dx", true}, {"dweight", true}, {"dbias", true}},
    .infer =
        [](const OpCall& call) {
          CheckLinearLoss(call, 6);
          Check(call.input(3) == Rows(call), call, "lse is not [rows]");
          Check(call.input(4) == LogProbs(call), call,
                "dlogp is not of the targets' shape in x's compute type");
          CheckAbsentOr(call, 5, WeightGradient(call, 8));
          CheckAbsentOr(call, 7, BiasGradient(call, 6));
          return std::vector<TensorType>{call.input(0), WeightGradient(call, 8),
                                         BiasGradient(call, 6)};
        },
    .gradient = {},
    .cost =
        [](const OpCall& call) {
          return LossCost(call, 1 + call.has_output(0) + call.has_output(1), 1, 1);
        },
    .in_place = {{5, 1}, {7, 2}},
    .random = true,
    .cost_class = CostClass::kProducts,
    .low_gradients = {{5, 1}},
});

const CudaWorkspaceRegistration kForwardWorkspace("linear_log_probs",
                                                  &CudaLossWorkspace<3, kAbsent, kAbsent>);
const CudaWorkspaceRegistration kBackwardWorkspace("linear_log_probs_backward",
                                                   &CudaLossWorkspace<6, 0, 1>);

}  // namespace
}  // namespace plimsoll::ops
