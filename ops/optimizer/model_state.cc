#include "ops/optimizer/model_state.h"

#include <string>
#include <vector>

#include "graph/gradient.h"
#include "ops/data_movement/views.h"
#include "ops/definition.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/linear/matmul.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::kNoTensor;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferMovingAverage(const OpCall& call) {
  const double momentum = call.attributes.GetReal("momentum");
  Check(momentum >= 0 && momentum <= 1, call, "momentum must be within [0, 1]");
  const TensorType state = LikeFloatInput0(call)[0], value = call.input(1);
  const int64_t values = value.shape.elements() / state.shape.elements();
  const bool several = value.shape.rank() == state.shape.rank() + 1 &&
                       value.shape.elements() == values * state.shape.elements() &&
                       value.shape.dim(0) == values;
  Check(value.dtype == state.dtype && (several || value == state), call,
        "value must be as state, or several of these");
  return {state};
}

// If `value` holds G values, each gets 1/G of the gradient.
void MovingAverageGradient(graph::GradientContext& ctx) {
  graph::Builder& g = ctx.builder();
  const double momentum = ctx.attributes().GetReal("momentum");
  const Value dy = ctx.output_gradient(0);
  if (ctx.wants(0)) ctx.SetGradient(0, Scale(g, dy, 1 - momentum));
  if (!ctx.wants(1)) return;
  const graph::Shape shape = g.shape(ctx.input(1));
  const int64_t elements = g.shape(dy).elements(), values = shape.elements() / elements;
  Value gradient = Scale(g, dy, momentum / static_cast<double>(values));
  if (shape != g.shape(dy)) {
    const Value ones = Constant(g, {g.dtype(dy), {values, 1}}, 1);
    gradient = View(g, Matmul(g, ones, View(g, gradient, {1, elements})), shape);
  }
  ctx.SetGradient(1, gradient);
}

void AddToStateGradient(graph::GradientContext& ctx) {
  for (const size_t i : {0, 1}) {
    if (ctx.wants(i)) ctx.SetGradient(i, ctx.output_gradient(0));
  }
}

std::vector<TensorType> InferMaxMagnitude(const OpCall& call) {
  Check(call.input(0).dtype == DType::kFloat32, call, "value must be f32");
  CheckAbsentOr(call, 1, call.input(0));
  return {call.input(0)};
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
    .shares_launches = true,
});

const OpRegistration kAddToState({
    .name = "add_to_state",
    .inputs = {{"state"}, {"value"}},
    .outputs = {{"next"}},
    .infer = &LikeEqualFloatInputs,
    .gradient = &AddToStateGradient,
    .cost = FlopsPerElement(1),
    .in_place = {{0, 0}},
    .precision = {Precision::kFloat32, "small changes of a carried sum"},
});

const OpRegistration kMaxMagnitude({
    .name = "max_magnitude",
    .inputs = {{"value"}, {"state", true}},
    .outputs = {{"next"}},
    .infer = &InferMaxMagnitude,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .in_place = {{0, 0}, {1, 0}},
    .precision = {Precision::kFloat32, "a carried maximum"},
});

const OpRegistration kCommitState({
    .name = "commit_state",
    .inputs = {{"state"}, {"pending"}, {"apply", true}},
    .outputs = {{"state"}},
    .infer = &InferCommitState,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .in_place = {{0, 0}},
    .shares_launches = true,
});

}  // namespace

Value MovingAverage(graph::Builder& g, Value state, Value value, double momentum,
                    std::string_view name) {
  return g.Emit1("moving_average", {state, value}, {{"momentum", momentum}}, name);
}

Value AddToState(graph::Builder& g, Value state, Value value, std::string_view name) {
  return g.Emit1("add_to_state", {state, value}, {}, name);
}

Value MaxMagnitude(graph::Builder& g, Value value, Value state, std::string_view name) {
  return g.Emit1("max_magnitude", {value, state}, {}, name);
}

void WritePending(graph::Builder& g, Value pending, Value next, bool first) {
  using graph::OverMicroSteps;
  const OverMicroSteps over = g.program().tensor(pending).merge->micro_steps;
  if (over == OverMicroSteps::kMax) {
    g.EmitInto({pending}, "max_magnitude", {next, first ? kNoTensor : pending});
  } else if (over != OverMicroSteps::kLast && !first) {
    g.EmitInto({pending}, "add_to_state", {pending, next});
  } else {
    g.EmitInto({pending}, "cast", {next}, {{"dtype", std::string(graph::Name(DType::kFloat32))}});
  }
}

void CommitState(graph::Builder& g, Value state, Value pending, int64_t parts, Value apply) {
  std::vector<Value> inputs = {state, pending};
  if (apply != kNoTensor) inputs.push_back(apply);
  g.EmitInto({state}, "commit_state", std::move(inputs), {{"parts", parts}});
}

}  // namespace plimsoll::ops
