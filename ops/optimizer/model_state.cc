#include "ops/optimizer/model_state.h"

#include <vector>

#include "graph/gradient.h"
#include "ops/arithmetic.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::kNoTensor;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferMovingAverage(const OpCall& call) {
  const double momentum = call.attributes.GetReal("momentum");
  Check(momentum >= 0 && momentum <= 1, call, "momentum must be within [0, 1]");
  return LikeEqualFloatInputs(call);
}

void MovingAverageGradient(graph::GradientContext& ctx) {
  const double momentum = ctx.attributes().GetReal("momentum");
  const double factors[] = {1 - momentum, momentum * ctx.attributes().GetReal("factor")};
  for (const size_t i : {0, 1}) {
    if (ctx.wants(i)) {
      ctx.SetGradient(i, Scale(ctx.builder(), ctx.output_gradient(0), factors[i]));
    }
  }
}

std::vector<TensorType> InferCommitState(const OpCall& call) {
  Check(call.input(0).dtype == DType::kFloat32, call, "state must be f32");
  Check(call.input(1) == call.input(0), call, "pending must have the type of state");
  Check(call.attributes.GetInt("parts") >= 1, call, "parts must be 1 or more");
  CheckAbsentOr(call, 2, {DType::kInt32, {}});
  return {call.input(0)};
}

const OpRegistration kMovingAverage({
    .name = "moving_average",
    .inputs = {{"state"}, {"value"}},
    .outputs = {{"next"}},
    .infer = &InferMovingAverage,
    .gradient = &MovingAverageGradient,
    .cost = FlopsPerElement(3),
    .in_place = {{0, 0}},
    .precision = {Precision::kFloat32, "small changes of a carried sum"},
    .sharding = {.follows = ShardingRule::kElements, .inputs = 2},
});

const OpRegistration kCommitState({
    .name = "commit_state",
    .inputs = {{"state"}, {"pending"}, {"apply", true}},
    .outputs = {{"state"}},
    .infer = &InferCommitState,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .in_place = {{0, 0}},
});

}  // namespace

Value MovingAverage(graph::Builder& g, Value state, Value value, double momentum, double factor,
                    std::string_view name) {
  return g.Emit1("moving_average", {state, value}, {{"momentum", momentum}, {"factor", factor}},
                 name);
}

void CommitState(graph::Builder& g, Value state, Value pending, int64_t parts, Value apply) {
  std::vector<Value> inputs = {state, pending};
  if (apply != kNoTensor) inputs.push_back(apply);
  g.EmitInto({state}, "commit_state", std::move(inputs), {{"parts", parts}});
}

}  // namespace plimsoll::ops
