#include "ops/linear/linear.h"

#include "graph/gradient.h"
#include "graph/op.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/linear/linear_workspace.h"

namespace plimsoll::ops {

using graph::Attributes;
using graph::Check;
using graph::Cost;
using graph::CostClass;
using graph::GradientContext;
using graph::kNoTensor;
using graph::OpCall;
using graph::Precision;
using graph::Shape;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

Value Linear(graph::Builder& g, Value x, Value weight, Value bias, std::string_view name) {
  return g.Emit1("linear", {x, weight, bias}, {}, name);
}

namespace {

// Checks that all present arguments have the float dtype of input 0.
void CheckOneFloat(const OpCall& call) {
  const graph::DType dtype = call.input(0).dtype;
  Check(graph::IsFloat(dtype), call, "needs floats");
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    Check(!call.has_input(i) || call.input(i).dtype == dtype, call, "dtypes differ");
  }
}

// The cost of rows · N · K multiply-adds, with every argument read or written once.
Cost ProductCost(const OpCall& call, double rows, double n, double k) {
  Cost cost;
  cost.flops = cost.products = 2 * rows * n * k;
  cost.bytes = ArgumentBytes(call);
  return cost;
}

std::vector<TensorType> InferLinear(const OpCall& call) {
  CheckOneFloat(call);
  const Shape& x = call.input(0).shape;
  const Shape& weight = call.input(1).shape;
  Check(x.rank() >= 1 && weight.rank() == 2, call, "needs x[...,K] and weight[N,K]");
  Check(x.dim(-1) == weight.dim(1), call, "x's last dimension is not weight's K");
  Check(!call.has_input(2) || call.input(2).shape == Shape{weight.dim(0)}, call, "bias is not [N]");
  return {{call.input(0).dtype, x.WithLast(weight.dim(0))}};
}

Attributes LinearDwAttributes(const Attributes& linear, bool bias) {
  Attributes attributes = Select(linear, {"tf32", "fp8"});
  attributes.Set("bias", bias);
  return attributes;
}

void LinearGradient(GradientContext& context) {
  graph::Builder& g = context.builder();
  const Value dy = context.output_gradient(0);
  if (dy == kNoTensor) return;
  const bool weight = context.wants(1);
  const bool bias = context.wants(2);
  // The weight's gradient is emitted first, so that dx can then overwrite x.
  if (weight || bias) {
    const Value acc_weight = weight ? context.TakePartial(1) : kNoTensor;
    const Value acc_bias = bias ? context.TakePartial(2) : kNoTensor;
    const std::vector<Value> gradients =
        g.Emit("linear_dw", {context.input(0), dy, acc_weight, acc_bias},
               LinearDwAttributes(context.attributes(), bias), "", {weight, bias});
    if (weight) context.SetGradient(1, gradients[0]);
    if (bias) context.SetGradient(2, gradients[1]);
  }
  if (context.wants(0)) {
    context.SetGradient(0, g.Emit1("linear_dx", {dy, context.input(1), context.TakePartial(0)},
                                   Select(context.attributes(), {"tf32", "fp8"})));
  }
}

std::vector<TensorType> InferLinearDx(const OpCall& call) {
  CheckOneFloat(call);
  const Shape& dy = call.input(0).shape;
  const Shape& weight = call.input(1).shape;
  Check(dy.rank() >= 1 && weight.rank() == 2, call, "needs dy[...,N] and weight[N,K]");
  Check(dy.dim(-1) == weight.dim(0), call, "dy's last dimension is not weight's N");
  const Shape dx = dy.WithLast(weight.dim(1));
  Check(!call.has_input(2) || call.input(2).shape == dx, call, "acc is not [...,K]");
  return {{call.input(0).dtype, dx}};
}

std::vector<TensorType> InferLinearDw(const OpCall& call) {
  const graph::DType dtype = call.input(0).dtype;
  Check(graph::IsFloat(dtype) && call.input(1).dtype == dtype, call,
        "x and dy need one float dtype");
  const Shape& x = call.input(0).shape;
  const Shape& dy = call.input(1).shape;
  Check(x.rank() >= 1 && dy.rank() >= 1 && x.DropLast() == dy.DropLast(), call,
        "x and dy have different rows");
  const bool low = MakesLowGradient(call, 4);
  const TensorType dweight{low ? dtype : graph::ComputeType(dtype), {dy.dim(-1), x.dim(-1)}};
  const TensorType dbias{graph::ComputeType(dtype), {dy.dim(-1)}};
  CheckAbsentOr(call, 2, dweight);
  CheckAbsentOr(call, 3, dbias);
  return {dweight, dbias};
}

const graph::OpRegistration kLinear({
    .name = "linear",
    .inputs = {{"x"}, {"weight"}, {"bias", true}},
    .outputs = {{"y"}},
    .infer = InferLinear,
    .gradient = LinearGradient,
    .cost =
        [](const OpCall& call) {
          const Shape& weight = call.input(1).shape;
          return ProductCost(call, call.input(0).shape.rows(), weight.dim(0), weight.dim(1));
        },
    .precision = {Precision::kLow, "low operands, products summed in float32", /*tf32=*/true},
    .cost_class = CostClass::kProducts,
    .sharding = {.follows = ShardingRule::kRows,
                 .split_weight = ShardingRule::kProduct,
                 .weight = 1},
    .takes_adapters = true,
});

const graph::OpRegistration kLinearDx({
    .name = "linear_dx",
    .inputs = {{"dy"}, {"weight"}, {"acc", true}},
    .outputs = {{"dx"}},
    .infer = InferLinearDx,
    .gradient = {},
    .cost =
        [](const OpCall& call) {
          const Shape& weight = call.input(1).shape;
          return ProductCost(call, call.input(0).shape.rows(), weight.dim(0), weight.dim(1));
        },
    .in_place = {{2, 0}},
    .cost_class = CostClass::kProducts,
});

const graph::OpRegistration kLinearDw({
    .name = "linear_dw",
    .inputs = {{"x"}, {"dy"}, {"acc_weight", true}, {"acc_bias", true}, {"rng", true}},
    .outputs = {{"dweight", true}, {"dbias", true}},
    .infer = InferLinearDw,
    .gradient = {},
    .cost =
        [](const OpCall& call) {
          const Shape& x = call.input(0).shape;
          const double n = call.input(1).shape.dim(-1);
          Cost cost = ProductCost(call, call.has_output(0) ? x.rows() : 0, n, x.dim(-1));
          if (call.has_output(1)) cost.flops += n * x.rows();
          return cost;
        },
    .in_place = {{2, 0}, {3, 1}},
    .random = true,
    .cost_class = CostClass::kProducts,
    .low_gradients = {{2, 0}},
});

const CudaWorkspaceRegistration kLinearWorkspace("linear", &LinearWorkspace);
const CudaWorkspaceRegistration kLinearDxWorkspace("linear_dx", &LinearWorkspace);
const CudaWorkspaceRegistration kLinearDwWorkspace("linear_dw", &LinearDwWorkspace);

}  // namespace
}  // namespace plimsoll::ops
