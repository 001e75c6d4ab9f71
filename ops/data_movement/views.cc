#include "ops/data_movement/views.h"

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::Shape;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferView(const OpCall& call) {
  const Shape shape = GetShape(call.attributes);
  Check(shape.elements() == call.input(0).shape.elements(), call,
        "a view has as many elements, not those of " + shape.ToString());
  return {{call.input(0).dtype, shape}};
}

void ViewGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  ctx.SetGradient(0, View(g, ctx.output_gradient(0), g.shape(ctx.input(0))));
}

std::vector<TensorType> InferElementsOf(const OpCall& call) {
  const Shape shape = GetShape(call.attributes);
  const int64_t first = call.attributes.GetInt("first"), count = shape.elements();
  const int64_t elements = call.input(0).shape.elements();
  Check(first >= 0 && count >= 0 && count <= elements && first <= elements - count, call,
        "a slice lies within its base");
  return {{call.input(0).dtype, shape}};
}

std::vector<TensorType> InferStopGradient(const OpCall& call) { return {call.input(0)}; }

std::vector<TensorType> InferSelectRows(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 3, call, "x must be floating, [B,T,D]");
  Check(call.input(1) == TensorType{DType::kInt32, {x.shape.dim(0)}}, call, "index must be i32[B]");
  return {{x.dtype, {x.shape.dim(0), x.shape.dim(2)}}};
}

graph::Cost SelectRowsCost(const OpCall& call) {
  return {0, 2.0 * static_cast<double>(call.output(0).bytes()) +
                 static_cast<double>(call.input(1).bytes())};
}

const OpRegistration kView({
    .name = "view",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferView,
    .gradient = &ViewGradient,
    .cost = {},
    .view = true,
    .precision = {Precision::kAsInput, "another shape for the same bytes"},
});

const OpRegistration kSlice({
    .name = "slice",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferElementsOf,
    .gradient = {},
    .cost = {},
    .view = true,
    .precision = {Precision::kAsInput, "some of the same bytes"},
});

const OpRegistration kStopGradient({
    .name = "stop_gradient",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferStopGradient,
    .gradient = {},
    .cost = {},
    .view = true,
    .stops_gradient = true,
    .precision = {Precision::kAsInput, "another name for the same bytes"},
    .sharding = {.follows = ShardingRule::kElements},
});

const OpRegistration kSelectRows({
    .name = "select_rows",
    .inputs = {{"x"}, {"index"}},
    .outputs = {{"y"}},
    .infer = &InferSelectRows,
    .gradient = {},
    .cost = &SelectRowsCost,
    .precision = {Precision::kLowStorage, "moves rows, rounds nothing"},
});

}  // namespace

Value View(graph::Builder& g, Value x, const Shape& shape, std::string_view name) {
  graph::Attributes attributes;
  SetShape(attributes, shape);
  return g.Emit1("view", {x}, attributes, name);
}

Value Slice(graph::Builder& g, Value x, int64_t first, const Shape& shape, std::string_view name) {
  graph::Attributes attributes{{"first", first}};
  SetShape(attributes, shape);
  const Value y = g.Emit1("slice", {x}, attributes, name);
  graph::Tensor& slice = g.program().mutable_tensor(y);
  const graph::Tensor& base = g.program().tensor(x);
  slice.alias->byte_offset = first * graph::ByteSize(base.type.dtype);
  slice.role = base.role;
  slice.place = base.place;
  slice.persistent = base.persistent;
  return y;
}

Value StopGradient(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("stop_gradient", {x}, {}, name);
}

Value SelectRows(graph::Builder& g, Value x, Value index, std::string_view name) {
  return g.Emit1("select_rows", {x, index}, {}, name);
}

}  // namespace plimsoll::ops
