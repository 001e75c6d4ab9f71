#include "ops/collectives/collective.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/gradient.h"
#include "graph/op.h"
#include "ops/collectives/axis.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::OpDef;
using graph::OpRegistry;
using graph::Precision;
using graph::Shape;
using graph::TensorType;
using graph::Transfer;
using graph::Value;

std::vector<TensorType> InferSame(const OpCall& call) { return {call.input(0)}; }

std::vector<TensorType> InferAllReduce(const OpCall& call) {
  AxisOf(call.attributes);
  const bool sum = ReductionOf(call.attributes) == Reduction::kSum;
  Check(sum || call.input(0).dtype == graph::DType::kFloat32, call, "x of a maximum must be f32");
  return InferSame(call);
}

// The maximum has no gradient, because no loss reads it.
Value AllReduceGradient(GradientContext& ctx) {
  if (ReductionOf(ctx.attributes()) == Reduction::kMax) {
    throw InternalError("a maximum over ranks has no gradient");
  }
  return ctx.output_gradient(0);
}

void CheckParts(const OpCall& call, const Shape& whole, const Shape& part) {
  Check(part.elements() > 0 && whole.elements() % part.elements() == 0, call,
        whole.ToString() + " is no multiple of " + part.ToString());
}

// Infers the type of y, a part of x.
std::vector<TensorType> InferPart(const OpCall& call) {
  const Shape shape = GetShape(call.attributes);
  CheckParts(call, call.input(0).shape, shape);
  return {{call.input(0).dtype, shape}};
}

std::vector<TensorType> InferReduceScatter(const OpCall& call) {
  AxisOf(call.attributes);
  return InferPart(call);
}

std::vector<TensorType> InferAllGather(const OpCall& call) {
  AxisOf(call.attributes);
  const Shape shape = GetShape(call.attributes);
  CheckParts(call, shape, call.input(0).shape);
  return {{call.input(0).dtype, shape}};
}

// The gradient of x if it equals the gradient of y.
Value HandOn(GradientContext& ctx) { return ctx.output_gradient(0); }

Value ReduceScatterGradient(GradientContext& ctx) {
  graph::Builder& g = ctx.builder();
  return AllGather(g, ctx.output_gradient(0), AxisOf(ctx.attributes()), g.shape(ctx.input(0)), "");
}

Value AllGatherGradient(GradientContext& ctx) {
  graph::Builder& g = ctx.builder();
  return ReduceScatter(g, ctx.output_gradient(0), AxisOf(ctx.attributes()), g.shape(ctx.input(0)),
                       "");
}

Value SumGradientGradient(GradientContext& ctx) {
  return AllReduce(ctx.builder(), ctx.output_gradient(0), AxisOf(ctx.attributes()), "");
}

// Defines an op with one result. `gradient` may be nullptr: the op has no gradient.
OpDef OneResult(std::string name, std::vector<graph::Argument> inputs, std::string result,
                std::vector<TensorType> (*infer)(const OpCall&),
                Value (*gradient)(GradientContext&)) {
  OpDef op;
  op.name = std::move(name);
  op.inputs = std::move(inputs);
  op.outputs = {{std::move(result)}};
  op.infer = infer;
  if (gradient != nullptr) {
    op.gradient = [=](GradientContext& ctx) {
      if (ctx.wants(0)) ctx.SetGradient(0, gradient(ctx));
    };
  }
  return op;
}

OpDef AsView(OpDef op) {
  op.view = true;
  op.precision = {Precision::kAsInput, "another name for the same bytes"};
  return op;
}

// Defines two ops: NAME_start (x) → y and NAME_done (y, x?) → result.
struct Collective {
  std::string name, result;
  std::vector<TensorType> (*infer)(const OpCall&);
  Value (*gradient)(GradientContext&);
  std::string_view reason;  // the reason that the op's precision rule gives
  bool in_place;            // y may use the memory of x
  bool done_reads_x;
};

const bool kCollectivesRegistered = [] {
  constexpr std::string_view kSums = "gradients are summed in the type they have";
  const Collective collectives[] = {
      {"all_reduce", "sum", &InferAllReduce, &AllReduceGradient, kSums, true, false},
      {"reduce_scatter", "part", &InferReduceScatter, &ReduceScatterGradient, kSums, false, true},
      // x may be this rank's own part of y.
      {"all_gather", "whole", &InferAllGather, &AllGatherGradient, "moves bytes", true, true},
  };
  OpRegistry& registry = OpRegistry::Get();
  for (const Collective& of : collectives) {
    OpDef start = OneResult(of.name + "_start", {{"x"}}, "y", of.infer, of.gradient);
    if (of.in_place) start.in_place = {{0, 0}};
    start.precision = {Precision::kAsInput, of.reason};
    start.transfer = Transfer::kCollectiveStart;
    OpDef done = AsView(OneResult(of.name + "_done", {{"y"}}, of.result, &InferSame, &HandOn));
    if (of.done_reads_x) done.inputs.push_back({"x"});
    done.transfer = Transfer::kCollectiveDone;
    registry.Add(std::move(start));
    registry.Add(std::move(done));
  }
  registry.Add(
      AsView(OneResult("sum_gradient", {{"x"}}, "y", &InferAllReduce, &SumGradientGradient)));
  for (const char* name : {"own_part", "first_part"}) {
    registry.Add(AsView(OneResult(name, {{"x"}}, "part", &InferPart, nullptr)));
  }
  return true;
}();

}  // namespace

graph::Attributes AlongAxis(std::string_view axis) { return {{"axis", std::string(axis)}}; }

graph::Attributes AlongAxis(std::string_view axis, const Shape& result) {
  graph::Attributes attributes = AlongAxis(axis);
  SetShape(attributes, result);
  return attributes;
}

Value AllReduce(graph::Builder& g, Value x, std::string_view axis, std::string_view name) {
  const Value y = g.Emit1("all_reduce_start", {x}, AlongAxis(axis), name);
  return g.Emit1("all_reduce_done", {y}, {}, name);
}

Value ReduceScatter(graph::Builder& g, Value x, std::string_view axis, const Shape& shape,
                    std::string_view name) {
  const Value y = g.Emit1("reduce_scatter_start", {x}, AlongAxis(axis, shape), name);
  return g.Emit1("reduce_scatter_done", {y, x}, {}, name);
}

Value AllGather(graph::Builder& g, Value x, std::string_view axis, const Shape& shape,
                std::string_view name) {
  const Value y = g.Emit1("all_gather_start", {x}, AlongAxis(axis, shape), name);
  return g.Emit1("all_gather_done", {y, x}, {}, name);
}

bool WaitsForRanks(const graph::Node& node) {
  const bool reduces =
      node.op->sharding.split_weight == graph::ShardingRule::kReduction || node.op->with_backward;
  return IsCollective(*node.op) || (reduces && node.attributes.Has("axis"));
}

bool GathersParameter(const graph::Program& program, const graph::Node& node) {
  return node.op->name == "all_gather_start" &&
         program.tensor(node.inputs[0]).role == graph::Role::kParameter;
}

Value SumGradient(graph::Builder& g, Value x, std::string_view axis, std::string_view name) {
  return g.Emit1("sum_gradient", {x}, AlongAxis(axis), name);
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
