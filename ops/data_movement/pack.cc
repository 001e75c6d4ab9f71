#include "ops/data_movement/pack.h"

#include "graph/op.h"

namespace plimsoll::ops {
namespace {

std::vector<graph::TensorType> InferPack(const graph::OpCall& call) {
  graph::Check(!call.inputs.empty(), call, "needs an input");
  const graph::DType dtype = call.input(0).dtype;
  graph::Check(graph::IsFloat(dtype), call, "inputs must be floating");
  int64_t elements = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    graph::Check(call.input(i).dtype == dtype, call, "inputs need one dtype");
    elements += PackedElements(call.input(i).shape.elements());
  }
  return {{dtype, {elements}}};
}

const graph::OpRegistration kPack({
    .name = "pack",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .variadic = true,
    .infer = &InferPack,
    .gradient = {},
    .cost = {},
    .precision = {graph::Precision::kAsInput, "moves bytes"},
});

std::vector<graph::TensorType> InferStack(const graph::OpCall& call) {
  graph::Check(!call.inputs.empty(), call, "needs an input");
  const graph::DType dtype = call.input(0).dtype;
  graph::Check(dtype == graph::DType::kFloat32 || dtype == graph::DType::kFloat64, call,
               "inputs must be f32[] or f64[]");
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    graph::Check(call.input(i) == graph::TensorType{dtype, {}}, call,
                 "inputs must be scalars of one dtype");
  }
  return {{dtype, {static_cast<int64_t>(call.inputs.size())}}};
}

const graph::OpRegistration kStack({
    .name = "stack",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .variadic = true,
    .infer = &InferStack,
    .gradient = {},
    .cost = {},
});

}  // namespace
}  // namespace plimsoll::ops
