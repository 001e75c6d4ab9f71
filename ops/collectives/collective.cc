#include "ops/collectives/collective.h"

#include <string>

#include "graph/gradient.h"
#include "graph/op.h"
#include "ops/collectives/axis.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::Shape;
using graph::TensorType;
using graph::Transfer;
using graph::Value;

std::vector<TensorType> InferAllReduce(const OpCall& call) {
  AxisOf(call.attributes);
  return {call.input(0)};
}

// y is x's part.
std::vector<TensorType> InferPart(const OpCall& call) {
  const Shape shape = GetShape(call.attributes);
  const int64_t whole = call.input(0).shape.elements(), part = shape.elements();
  Check(part > 0 && whole % part == 0, call,
        call.input(0).shape.ToString() + " is no multiple of " + shape.ToString());
  return {{call.input(0).dtype, shape}};
}

std::vector<TensorType> InferReduceScatter(const OpCall& call) {
  AxisOf(call.attributes);
  return InferPart(call);
}

std::vector<TensorType> InferAllGather(const OpCall& call) {
  AxisOf(call.attributes);
  const Shape shape = GetShape(call.attributes);
  const int64_t part = call.input(0).shape.elements(), whole = shape.elements();
  Check(part > 0 && whole % part == 0, call,
        shape.ToString() + " is no multiple of " + call.input(0).shape.ToString());
  return {{call.input(0).dtype, shape}};
}

// The gradient of y becomes that of x.
void HandOn(GradientContext& ctx) {
  if (ctx.wants(0)) ctx.SetGradient(0, ctx.output_gradient(0));
}

void ReduceScatterGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  ctx.SetGradient(
      0, AllGather(g, ctx.output_gradient(0), AxisOf(ctx.attributes()), g.shape(ctx.input(0)), ""));
}

void AllGatherGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  ctx.SetGradient(0, ReduceScatter(g, ctx.output_gradient(0), AxisOf(ctx.attributes()),
                                   g.shape(ctx.input(0)), ""));
}

void SumGradientGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(0,
                  AllReduce(ctx.builder(), ctx.output_gradient(0), AxisOf(ctx.attributes()), ""));
}

std::vector<TensorType> InferDone(const OpCall& call) { return {call.input(0)}; }

const OpRegistration kAllReduceStart({
    .name = "all_reduce_start",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferAllReduce,
    .gradient = &HandOn,
    .cost = {},
    .in_place = {{0, 0}},
    .precision = {Precision::kAsInput, "gradients are summed in the type they have"},
    .transfer = Transfer::kCollectiveStart,
});

const OpRegistration kAllReduceDone({
    .name = "all_reduce_done",
    .inputs = {{"y"}},
    .outputs = {{"sum"}},
    .infer = &InferDone,
    .gradient = &HandOn,
    .cost = {},
    .view = true,
    .precision = {Precision::kAsInput, "another name for the same bytes"},
    .transfer = Transfer::kCollectiveDone,
});

const OpRegistration kReduceScatterStart({
    .name = "reduce_scatter_start",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferReduceScatter,
    .gradient = &ReduceScatterGradient,
    .cost = {},
    .precision = {Precision::kAsInput, "gradients are summed in the type they have"},
    .transfer = Transfer::kCollectiveStart,
});

const OpRegistration kReduceScatterDone({
    .name = "reduce_scatter_done",
    .inputs = {{"y"}, {"x"}},
    .outputs = {{"part"}},
    .infer = &InferDone,
    .gradient = &HandOn,
    .cost = {},
    .view = true,
    .precision = {Precision::kAsInput, "another name for the same bytes"},
    .transfer = Transfer::kCollectiveDone,
});

const OpRegistration kAllGatherStart({
    .name = "all_gather_start",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferAllGather,
    .gradient = &AllGatherGradient,
    .cost = {},
    .in_place = {{0, 0}},  // x may be this rank's own part of y
    .precision = {Precision::kAsInput, "moves bytes"},
    .transfer = Transfer::kCollectiveStart,
});

const OpRegistration kAllGatherDone({
    .name = "all_gather_done",
    .inputs = {{"y"}, {"x"}},
    .outputs = {{"whole"}},
    .infer = &InferDone,
    .gradient = &HandOn,
    .cost = {},
    .view = true,
    .precision = {Precision::kAsInput, "another name for the same bytes"},
    .transfer = Transfer::kCollectiveDone,
});

const OpRegistration kSumGradient({
    .name = "sum_gradient",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferAllReduce,
    .gradient = &SumGradientGradient,
    .cost = {},
    .view = true,
    .precision = {Precision::kAsInput, "another name for the same bytes"},
});

const OpRegistration kOwnPart({
    .name = "own_part",
    .inputs = {{"x"}},
    .outputs = {{"part"}},
    .infer = &InferPart,
    .gradient = {},
    .cost = {},
    .view = true,
    .precision = {Precision::kAsInput, "another name for the same bytes"},
});

const OpRegistration kFirstPart({
    .name = "first_part",
    .inputs = {{"x"}},
    .outputs = {{"part"}},
    .infer = &InferPart,
    .gradient = {},
    .cost = {},
    .view = true,
    .precision = {Precision::kAsInput, "another name for the same bytes"},
});

graph::Attributes AttributesFor(std::string_view axis, const Shape& shape) {
  graph::Attributes attributes{{"axis", std::string(axis)}};
  SetShape(attributes, shape);
  return attributes;
}

}  // namespace

Value AllReduce(graph::Builder& g, Value x, std::string_view axis, std::string_view name) {
  const Value y = g.Emit1("all_reduce_start", {x}, {{"axis", std::string(axis)}}, name);
  return g.Emit1("all_reduce_done", {y}, {}, name);
}

Value ReduceScatter(graph::Builder& g, Value x, std::string_view axis, const Shape& shape,
                    std::string_view name) {
  const Value y = g.Emit1("reduce_scatter_start", {x}, AttributesFor(axis, shape), name);
  return g.Emit1("reduce_scatter_done", {y, x}, {}, name);
}

Value AllGather(graph::Builder& g, Value x, std::string_view axis, const Shape& shape,
                std::string_view name) {
  const Value y = g.Emit1("all_gather_start", {x}, AttributesFor(axis, shape), name);
  return g.Emit1("all_gather_done", {y, x}, {}, name);
}

bool GathersParameter(const graph::Program& program, const graph::Node& node) {
  return node.op->name == "all_gather_start" &&
         program.tensor(node.inputs[0]).role == graph::Role::kParameter;
}

Value SumGradient(graph::Builder& g, Value x, std::string_view axis, std::string_view name) {
  return g.Emit1("sum_gradient", {x}, {{"axis", std::string(axis)}}, name);
}

Value OwnPart(graph::Builder& g, Value x, std::string_view axis, const Shape& shape,
              std::string_view name) {
  graph::Attributes attributes;
  SetShape(attributes, shape);
  const Value part = g.Emit1("own_part", {x}, attributes, name);
  g.program().mutable_tensor(part).alias->part_along = axis;
  return part;
}

}  // namespace plimsoll::ops
