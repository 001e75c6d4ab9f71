#include "ops/optimizer/weight_average.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::Cost;
using graph::DType;
using graph::kNoTensor;
using graph::OpCall;
using graph::OpRegistration;
using graph::TensorType;
using graph::Value;

// Checks a weight, its remainder or master, and its average. Returns the type of the remainder or
// master.
TensorType CheckAveraged(const OpCall& call, size_t weight, size_t master, size_t average) {
  const TensorType& p = call.input(weight);
  Check(graph::IsFloat(p.dtype), call, "p must be floating");
  Check(call.input(average) == TensorType{graph::ComputeType(p.dtype), p.shape}, call,
        "'average' must be of p's shape, and f32 for a p of 16 bits");
  if (!call.has_input(master)) {
    Check(p.dtype != DType::kFloat16, call, "p of type f16 needs a master");
    return {DType::kFloat32, {0}};
  }
  const TensorType& type = call.input(master);
  const bool fits = type.dtype == DType::kFloat32
                        ? graph::IsLowPrecision(p.dtype)
                        : type.dtype == DType::kInt16 && p.dtype == DType::kBFloat16;
  Check(fits && type.shape == p.shape, call,
        "'master' must be f32 for p bf16 or f16, or i16 for p bf16, and of p's shape");
  return type;
}

std::vector<TensorType> InferWeightAverage(const OpCall& call) {
  CheckAveraged(call, 1, 3, 0);
  Check(call.input(2) == TensorType{DType::kInt32, {}}, call, "count must be i32[]");
  CheckAbsentOr(call, 4, {DType::kInt32, {}});
  const double decay = call.attributes.GetReal("decay");
  Check(decay >= 0 && decay < 1, call, "decay must be within [0, 1)");
  call.attributes.GetBool("warmup");
  return {call.input(0)};
}

std::vector<TensorType> InferExchangeAverage(const OpCall& call) {
  const TensorType master = CheckAveraged(call, 0, 2, 1);
  return {call.input(0), call.input(1), master};
}

// A weight with a float32 master is not read.
Cost WeightAverageCost(const OpCall& call) {
  const bool unread = call.has_input(3) && call.input(3).dtype == DType::kFloat32;
  return {3.0 * static_cast<double>(call.input(0).shape.elements()),
          ArgumentBytes(call) - (unread ? static_cast<double>(call.input(1).bytes()) : 0)};
}

const OpRegistration kWeightAverage({
    .name = "weight_average",
    .inputs = {{"average"}, {"p"}, {"count"}, {"master", true}, {"apply", true}},
    .outputs = {{"average"}},
    .infer = &InferWeightAverage,
    .gradient = {},
    .cost = &WeightAverageCost,
    .in_place = {{0, 0}},
    .shares_launches = true,
});

const OpRegistration kExchangeAverage({
    .name = "exchange_average",
    .inputs = {{"p"}, {"average"}, {"master", true}},
    .outputs = {{"p"}, {"average"}, {"master", true}},
    .infer = &InferExchangeAverage,
    .gradient = {},
    .cost = FlopsPerElement(0),
    .in_place = {{0, 0}, {1, 1}, {2, 2}},
    .shares_launches = true,
});

void RequirePersistent(graph::Builder& g, Value value) {
  if (value == kNoTensor || g.program().tensor(value).persistent) return;
  throw InternalError("average: tensor '" + g.program().tensor(value).name +
                      "' is changed in place but not persistent");
}

}  // namespace

void WeightAverage(graph::Builder& g, Value average, StoredWeight weight, Value count, Value apply,
                   const WeightAverageOptions& options) {
  RequirePersistent(g, average);
  std::vector<Value> inputs = {average, weight.p, count, weight.master, apply};
  while (inputs.back() == kNoTensor) inputs.pop_back();
  g.EmitInto({average}, "weight_average", std::move(inputs),
             {{"decay", options.decay}, {"warmup", options.warmup}});
}

void ExchangeAverage(graph::Builder& g, StoredWeight weight, Value average) {
  const std::vector<Value> exchanged = {weight.p, average, weight.master};
  for (const Value value : exchanged) RequirePersistent(g, value);
  std::vector<Value> inputs = exchanged;
  if (weight.master == kNoTensor) inputs.pop_back();
  g.EmitInto(exchanged, "exchange_average", std::move(inputs));
}

}  // namespace plimsoll::ops
