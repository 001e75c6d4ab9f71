#include "ops/elementwise/arithmetic.h"

#include <string>
#include <utility>
#include <vector>

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::GradientContext;
using graph::OpCall;
using graph::OpDef;
using graph::OpRegistration;
using graph::Precision;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

// Integers are allowed because counts are summed too.
std::vector<TensorType> InferAdd(const OpCall& call) {
  const TensorType& a = call.input(0);
  if (a.dtype != DType::kInt32) return LikeEqualFloatInputs(call);
  Check(call.input(1) == a, call, "inputs must agree in type");
  return {a};
}

void AddGradient(GradientContext& ctx) {
  for (size_t i : {0, 1}) {
    if (ctx.wants(i)) ctx.SetGradient(i, ctx.output_gradient(0));
  }
}

void MulGradient(GradientContext& ctx) {
  for (size_t i : {0, 1}) {
    if (ctx.wants(i)) {
      ctx.SetGradient(i, Mul(ctx.builder(), ctx.output_gradient(0), ctx.input(1 - i)));
    }
  }
}

void ScaleGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(0, ctx.builder().Emit1("scale", {ctx.output_gradient(0)}, ctx.attributes()));
}

std::vector<TensorType> InferScaleBy(const OpCall& call) {
  const TensorType& s = call.input(1);
  Check(s.shape.rank() == 0 && (s.dtype == DType::kFloat32 || s.dtype == call.input(0).dtype), call,
        "'s' must be f32[] or a scalar of the dtype of x");
  return LikeFloatInput0(call);
}

void ScaleByGradient(GradientContext& ctx) {
  graph::Builder& g = ctx.builder();
  const Value dy = ctx.output_gradient(0);
  if (ctx.wants(0)) ctx.SetGradient(0, ScaleBy(g, dy, ctx.input(1)));
  if (ctx.wants(1)) {
    const DType dtype = g.dtype(ctx.input(1));
    const Value ds = g.Emit1("sum", {Mul(g, dy, ctx.input(0))});
    ctx.SetGradient(1, g.dtype(ds) == dtype ? ds : Cast(g, ds, dtype));
  }
}

DType DTypeAttribute(const OpCall& call) {
  const auto dtype = graph::ParseDType(call.attributes.GetWord("dtype"));
  Check(dtype.has_value(), call, "unknown dtype");
  return *dtype;
}

std::vector<TensorType> InferCast(const OpCall& call) {
  return {{DTypeAttribute(call), call.input(0).shape}};
}

void CastGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  const Value dy = ctx.output_gradient(0);
  const DType dtype = g.dtype(ctx.input(0));
  // The gradient of a parameter is a float32 sum, even if the parameter or its copy has another
  // type. It is passed on without conversion.
  const bool parameter = g.program().tensor(ctx.input(0)).role == graph::Role::kParameter;
  const DType expected = parameter ? graph::ComputeType(dtype) : dtype;
  ctx.SetGradient(0, g.dtype(dy) == expected ? dy : Cast(g, dy, expected));
}

std::vector<TensorType> InferFill(const OpCall& call) {
  // Without the attribute "rank" the constant is a scalar.
  const bool scalar = !call.attributes.Has("rank");
  return {{DTypeAttribute(call), scalar ? graph::Shape() : GetShape(call.attributes)}};
}

// Defines an op that rounds once. Its first `tensors` inputs have the type of y.
OpDef Arithmetic(std::string name, std::vector<graph::Argument> inputs, int tensors,
                 std::vector<TensorType> (*infer)(const OpCall&),
                 void (*gradient)(GradientContext&)) {
  OpDef op{
      .name = std::move(name),
      .inputs = std::move(inputs),
      .outputs = {{"y"}},
      .infer = infer,
      .gradient = gradient,
      .cost = FlopsPerElement(1),
      .precision = {Precision::kLowStorage, "one rounding per element"},
      .sharding = {.follows = ShardingRule::kElements, .inputs = tensors},
  };
  for (int i = 0; i < tensors; ++i) op.in_place.push_back({i, 0});
  op.cheap_to_recompute = tensors == static_cast<int>(op.inputs.size());
  return op;
}

const OpRegistration kAdd(Arithmetic("add", {{"a"}, {"b"}}, 2, &InferAdd, &AddGradient));
const OpRegistration kMul(Arithmetic("mul", {{"a"}, {"b"}}, 2, &LikeEqualFloatInputs,
                                     &MulGradient));
const OpRegistration kScale(Arithmetic("scale", {{"x"}}, 1, &LikeFloatInput0, &ScaleGradient));
const OpRegistration kScaleBy(Arithmetic("scale_by", {{"x"}, {"s"}}, 1, &InferScaleBy,
                                         &ScaleByGradient));

const OpRegistration kCast({
    .name = "cast",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferCast,
    .gradient = &CastGradient,
    .cost = {},
    .converts = true,
    .precision = {Precision::kAsInput, "converts on the model's own account"},
    .sharding = {.follows = ShardingRule::kElements},
    .cheap_to_recompute = true,
});

const OpRegistration kFill({
    .name = "fill",
    .inputs = {},
    .outputs = {{"y"}},
    .infer = &InferFill,
    .gradient = {},
    .cost = {},
});

}  // namespace

Value Add(graph::Builder& g, Value a, Value b, std::string_view name) {
  return g.Emit1("add", {a, b}, {}, name);
}

Value Mul(graph::Builder& g, Value a, Value b, std::string_view name) {
  return g.Emit1("mul", {a, b}, {}, name);
}

Value Scale(graph::Builder& g, Value x, double factor, std::string_view name) {
  return g.Emit1("scale", {x}, {{"factor", factor}}, name);
}

Value ScaleRounded(graph::Builder& g, Value x, double factor, std::string_view name) {
  return g.Emit1("scale", {x}, {{"factor", factor}, {"rounded", true}}, name);
}

bool HasRoundedFactor(const graph::Attributes& attributes) {
  return attributes.Has("rounded") && attributes.GetBool("rounded");
}

Value ScaleBy(graph::Builder& g, Value x, Value s, std::string_view name) {
  return g.Emit1("scale_by", {x, s}, {}, name);
}

Value Cast(graph::Builder& g, Value x, graph::DType dtype, std::string_view name) {
  return g.Emit1("cast", {x}, {{"dtype", std::string(graph::Name(dtype))}}, name);
}

Value Constant(graph::Builder& g, TensorType type, double value, std::string_view name) {
  graph::Attributes attributes = {{"dtype", std::string(graph::Name(type.dtype))},
                                  {"value", value}};
  if (type.shape.rank() > 0) SetShape(attributes, type.shape);
  return g.Emit1("fill", {}, attributes, name);
}

}  // namespace plimsoll::ops
