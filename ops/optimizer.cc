#include "ops/optimizer.h"

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

std::vector<TensorType> InferIncrement(const OpCall& call) {
  Check(call.input(0) == TensorType{DType::kInt32, {}}, call, "count must be i32[]");
  return {call.input(0)};
}

std::vector<TensorType> InferAdamW(const OpCall& call) {
  const TensorType& p = call.input(0);
  Check(graph::IsFloat(p.dtype), call, "p must be floating");
  for (size_t i = 1; i < 4; ++i) Check(call.input(i) == p, call, "g, m and v must be as p");
  CheckFloat32Scalar(call, 4);
  Check(call.input(5) == TensorType{DType::kInt32, {}}, call, "count must be i32[]");
  if (call.has_input(6)) CheckFloat32Scalar(call, 6);
  return {p, p, p};
}

std::vector<TensorType> InferSgd(const OpCall& call) {
  const TensorType& p = call.input(0);
  Check(graph::IsFloat(p.dtype) && call.input(1) == p, call, "g must be floating and as p");
  CheckAbsentOr(call, 2, p);
  CheckFloat32Scalar(call, 3);
  if (call.has_input(4)) CheckFloat32Scalar(call, 4);
  Check(call.has_input(2) || call.attributes.GetReal("momentum") == 0, call,
        "momentum needs a buffer");
  return {p, p};
}

const OpRegistration kIncrement({
    .name = "increment",
    .inputs = {{"count"}},
    .outputs = {{"count"}},
    .infer = &InferIncrement,
    .gradient = {},
    .cost = {},
    .in_place = {{0, 0}},
});

const OpRegistration kAdamW({
    .name = "adamw",
    .inputs = {{"p"}, {"g"}, {"m"}, {"v"}, {"lr"}, {"count"}, {"clip", true}},
    .outputs = {{"p"}, {"m"}, {"v"}},
    .infer = &InferAdamW,
    .gradient = {},
    .cost = FlopsPerElement(15),
    .in_place = {{0, 0}, {2, 1}, {3, 2}},
});

const OpRegistration kSgd({
    .name = "sgd",
    .inputs = {{"p"}, {"g"}, {"momentum", true}, {"lr"}, {"clip", true}},
    .outputs = {{"p"}, {"momentum", true}},
    .infer = &InferSgd,
    .gradient = {},
    .cost = FlopsPerElement(6),
    .in_place = {{0, 0}, {2, 1}},
});

// Emits a node that writes `updated` instead of fresh tensors.
void EmitUpdate(graph::Builder& g, std::string_view op, std::vector<Value> inputs,
                graph::Attributes attributes, std::vector<Value> updated, std::string_view name) {
  for (Value value : updated) {
    if (value != kNoTensor && !g.program().tensor(value).persistent) {
      throw InternalError(std::string(op) + ": tensor '" + g.program().tensor(value).name +
                          "' is updated in place but not persistent");
    }
  }
  g.Emit(op, std::move(inputs), std::move(attributes), name,
         std::vector<bool>(updated.size(), false));
  g.program().mutable_nodes().back().outputs = std::move(updated);
}

}  // namespace

void Increment(graph::Builder& g, Value count, std::string_view name) {
  EmitUpdate(g, "increment", {count}, {}, {count}, name);
}

void AdamW(graph::Builder& g, Value p, Value gradient, Value m, Value v, Value lr, Value count,
           Value clip, const AdamWOptions& options, std::string_view name) {
  EmitUpdate(g, "adamw", {p, gradient, m, v, lr, count, clip},
             {{"beta1", options.beta1},
              {"beta2", options.beta2},
              {"eps", options.eps},
              {"weight_decay", options.weight_decay}},
             {p, m, v}, name);
}

void Sgd(graph::Builder& g, Value p, Value gradient, Value momentum, Value lr, Value clip,
         const SgdOptions& options, std::string_view name) {
  EmitUpdate(g, "sgd", {p, gradient, momentum, lr, clip},
             {{"momentum", options.momentum},
              {"nesterov", options.nesterov},
              {"weight_decay", options.weight_decay}},
             {p, momentum}, name);
}

}  // namespace plimsoll::ops
