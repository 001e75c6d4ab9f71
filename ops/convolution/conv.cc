#include "ops/convolution/conv.h"

#include <algorithm>
#include <string>
#include <utility>

#include "graph/gradient.h"
#include "graph/op.h"
#include "ops/convolution/conv_geometry.h"
#include "ops/convolution/conv_workspace.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/linear/linear_workspace.h"
#include "ops/reductions/cuda_column_sums.h"

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
using graph::TensorType;
using graph::Value;

namespace {

// The attributes of a window over tensors with `rank` dimensions.
Attributes WindowAttributes(const ConvWindow& window, size_t rank) {
  Attributes attributes = {{"groups", window.groups}};
  constexpr const char* kAxes[3] = {"d", "h", "w"};
  for (size_t i = rank == 5 ? 0 : 1; i < 3; ++i) {
    attributes.Set(std::string("stride_") + kAxes[i], window.stride[i]);
    attributes.Set(std::string("pad_") + kAxes[i], window.pad[i]);
    attributes.Set(std::string("dilation_") + kAxes[i], window.dilation[i]);
  }
  return attributes;
}

Attributes WithShape(Attributes attributes, const Shape& shape) {
  SetShape(attributes, shape);
  return attributes;
}
Attributes WithoutShape(const Attributes& attributes) {
  return Select(attributes, {"groups", "stride_d", "stride_h", "stride_w", "pad_d", "pad_h",
                             "pad_w", "dilation_d", "dilation_h", "dilation_w", "tf32"});
}

}  // namespace

Value Conv(graph::Builder& g, Value x, Value weight, Value bias, const ConvWindow& window,
           std::string_view name) {
  return g.Emit1("conv", {x, weight, bias}, WindowAttributes(window, g.shape(x).rank()), name);
}

Value ConvTranspose(graph::Builder& g, Value x, Value weight, Value bias, const ConvWindow& window,
                    const std::array<int64_t, 3>& more, std::string_view name) {
  const Shape from = g.shape(x), kernel = g.shape(weight);
  const size_t rank = from.rank(), unused = 5 - rank;  // unused axes of ConvWindow
  std::vector<int64_t> dims = {from.dim(0)};
  for (size_t i = unused; i < 3; ++i) {
    const int at = static_cast<int>(i - unused) + 1;
    dims.push_back((from.dim(at) - 1) * window.stride[i] - 2 * window.pad[i] +
                   window.dilation[i] * (kernel.dim(at) - 1) + 1 + more[i]);
  }
  dims.push_back(kernel.dim(-1) * window.groups);
  return g.Emit1("conv_transpose", {x, weight, bias},
                 WithShape(WindowAttributes(window, rank), Shape(std::span<const int64_t>(dims))),
                 name);
}

namespace {

// One multiply-add for each output element and element of its patch.
Cost ConvCost(const OpCall& call) {
  const ConvGeometry g = GeometryOf(call);
  Cost cost;
  cost.flops = cost.products =
      2.0 * static_cast<double>(g.rows_out() * g.out_channels) * static_cast<double>(g.patch());
  cost.bytes = ArgumentBytes(call);
  return cost;
}

Cost ConvDwCost(const OpCall& call) {
  Cost cost = ConvCost(call);
  if (!call.has_output(0)) cost.flops = cost.products = 0;
  if (call.has_output(1)) cost.flops += static_cast<double>(call.input(1).shape.elements());
  return cost;
}

graph::DType FloatOfBoth(const OpCall& call) {
  const graph::DType dtype = call.input(0).dtype;
  Check(graph::IsFloat(dtype) && call.input(1).dtype == dtype, call, "needs one float dtype");
  return dtype;
}

std::vector<TensorType> InferConv(const OpCall& call) {
  const graph::DType dtype = FloatOfBoth(call);
  const ConvGeometry g = GeometryOf(call);
  CheckAbsentOr(call, 2, {dtype, {g.out_channels}});
  return {{dtype, OutputShape(g, call.input(0).shape.rank())}};
}

std::vector<TensorType> InferConvDx(const OpCall& call) {
  const TensorType dx{FloatOfBoth(call), GetShape(call.attributes)};
  Check(call.input(0).shape == OutputShape(GeometryOf(call), dx.shape.rank()), call,
        "dy has not the shape of the convolution's result");
  CheckAbsentOr(call, 2, dx);
  return {dx};
}

std::vector<TensorType> InferConvDw(const OpCall& call) {
  const graph::DType dtype = graph::ComputeType(FloatOfBoth(call));
  const ConvGeometry g = GeometryOf(call);
  Check(call.input(1).shape == OutputShape(g, call.input(0).shape.rank()), call,
        "dy has not the shape of the convolution's result");
  const TensorType dweight{dtype, GetShape(call.attributes)}, dbias{dtype, {g.out_channels}};
  CheckAbsentOr(call, 2, dweight);
  CheckAbsentOr(call, 3, dbias);
  return {dweight, dbias};
}

std::vector<TensorType> InferConvTranspose(const OpCall& call) {
  const TensorType y{FloatOfBoth(call), GetShape(call.attributes)};
  const ConvGeometry g = GeometryOf(call);
  Check(call.input(0).shape == OutputShape(g, y.shape.rank()), call,
        "a convolution of y has not the shape of x");
  CheckAbsentOr(call, 2, {y.dtype, {g.in_channels}});
  return {y};
}

void ConvGradient(GradientContext& context) {
  graph::Builder& g = context.builder();
  const Value dy = context.output_gradient(0);
  const bool weight = context.wants(1), bias = context.wants(2);
  // The weight's gradient is emitted first, so that dx can then overwrite x.
  if (weight || bias) {
    const Value acc_weight = weight ? context.TakePartial(1) : kNoTensor;
    const Value acc_bias = bias ? context.TakePartial(2) : kNoTensor;
    const std::vector<Value> gradients =
        g.Emit("conv_dw", {context.input(0), dy, acc_weight, acc_bias},
               WithShape(context.attributes(), g.shape(context.input(1))), "", {weight, bias});
    if (weight) context.SetGradient(1, gradients[0]);
    if (bias) context.SetGradient(2, gradients[1]);
  }
  if (context.wants(0)) {
    context.SetGradient(0, g.Emit1("conv_dx", {dy, context.input(1), context.TakePartial(0)},
                                   WithShape(context.attributes(), g.shape(context.input(0)))));
  }
}

void ConvTransposeGradient(GradientContext& context) {
  graph::Builder& g = context.builder();
  const Value dy = context.output_gradient(0);
  if (context.wants(1)) {
    const Value dweight =
        g.Emit("conv_dw", {dy, context.input(0), context.TakePartial(1), kNoTensor},
               WithShape(context.attributes(), g.shape(context.input(1))), "", {true, false})[0];
    context.SetGradient(1, dweight);
  }
  if (context.wants(2)) {  // the column sums of dy suffice: no product is needed
    const Value dbias =
        g.Emit("linear_dw", {dy, dy, kNoTensor, context.TakePartial(2)}, {}, "", {false, true})[1];
    context.SetGradient(2, dbias);
  }
  if (context.wants(0)) {
    context.SetGradient(
        0, g.Emit1("conv", {dy, context.input(1), kNoTensor}, WithoutShape(context.attributes())));
  }
}

const graph::OpRegistration kConv({
    .name = "conv",
    .inputs = {{"x"}, {"weight"}, {"bias", true}},
    .outputs = {{"y"}},
    .infer = InferConv,
    .gradient = ConvGradient,
    .cost = ConvCost,
    .precision = {Precision::kLow, "low operands, products summed in float32", /*tf32=*/true},
    .cost_class = CostClass::kProducts,
});

const graph::OpRegistration kConvDx({
    .name = "conv_dx",
    .inputs = {{"dy"}, {"weight"}, {"acc", true}},
    .outputs = {{"dx"}},
    .infer = InferConvDx,
    .gradient = {},
    .cost = ConvCost,
    .in_place = {{2, 0}},
    .cost_class = CostClass::kProducts,
});

const graph::OpRegistration kConvDw({
    .name = "conv_dw",
    .inputs = {{"x"}, {"dy"}, {"acc_weight", true}, {"acc_bias", true}},
    .outputs = {{"dweight", true}, {"dbias", true}},
    .infer = InferConvDw,
    .gradient = {},
    .cost = ConvDwCost,
    .in_place = {{2, 0}, {3, 1}},
    .cost_class = CostClass::kProducts,
});

const graph::OpRegistration kConvTranspose({
    .name = "conv_transpose",
    .inputs = {{"x"}, {"weight"}, {"bias", true}},
    .outputs = {{"y"}},
    .infer = InferConvTranspose,
    .gradient = ConvTransposeGradient,
    .cost = ConvCost,
    .precision = {Precision::kLow, "low operands, products summed in float32", /*tf32=*/true},
    .cost_class = CostClass::kProducts,
});

int64_t ConvDxWorkspace(const OpCall& call) {
  return ConvWorkspaceLimit(call) + (call.has_input(2) ? StagedGradientBytes(call.input(2)) : 0);
}

// The column sums and the convolution use the workspace one after the other.
int64_t ConvDwWorkspace(const OpCall& call) {
  const TensorType& dy = call.input(1);
  int64_t bytes = call.has_output(1) ? ColumnSumsBytes(dy.shape.rows(), dy.shape.dim(-1)) : 0;
  if (call.has_output(0)) {
    const bool staged = dy.dtype != graph::DType::kFloat32 || call.has_input(2);
    const TensorType gradient{dy.dtype, call.output(0).shape};
    bytes =
        std::max(bytes, ConvWorkspaceLimit(call) + (staged ? StagedGradientBytes(gradient) : 0));
  }
  return (bytes + 255) / 256 * 256;
}

const CudaWorkspaceRegistration kConvWorkspace("conv", [](const OpCall& call) {
  return GeometryOf(call).linear() ? LinearWorkspace(call) : ConvWorkspaceLimit(call);
});
const CudaWorkspaceRegistration kConvDxWorkspace("conv_dx", [](const OpCall& call) {
  return GeometryOf(call).linear() ? LinearWorkspace(call) : ConvDxWorkspace(call);
});
const CudaWorkspaceRegistration kConvTransposeWorkspace("conv_transpose", ConvWorkspaceLimit);
const CudaWorkspaceRegistration kConvDwWorkspace("conv_dw", [](const OpCall& call) {
  return GeometryOf(call).linear() ? LinearDwWorkspace(call) : ConvDwWorkspace(call);
});

}  // namespace
}  // namespace plimsoll::ops
