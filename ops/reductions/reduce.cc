#include "ops/reductions/reduce.h"

#include <string>
#include <utility>
#include <vector>

#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/reductions/sum_chunks.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::GradientContext;
using graph::OpCall;
using graph::OpDef;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferSum(const OpCall& call) {
  Check(graph::IsFloat(call.input(0).dtype), call, "input must be floating");
  return {{graph::ComputeType(call.input(0).dtype), {}}};
}

// The gradient of a sum is the same for every element: ones, scaled by the sum's gradient.
void SumGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  const Value ones = Constant(g, g.type(ctx.input(0)), 1);
  ctx.SetGradient(0, ScaleBy(g, ones, ctx.output_gradient(0)));
}

void SquaredNormGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  ctx.SetGradient(0, ScaleBy(g, Scale(g, ctx.input(0), 2), ctx.output_gradient(0)));
}

std::vector<TensorType> InferGlobalNorm(const OpCall& call) {
  Check(!call.inputs.empty(), call, "needs an input");
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    Check(graph::IsFloat(call.input(i).dtype), call, "inputs must be floating");
  }
  return {{DType::kFloat32, {}}};
}

std::vector<TensorType> InferSquareSum(const OpCall& call) {
  Check(graph::IsFloat(call.input(0).dtype), call, "the input must be floating");
  return {{DType::kFloat64, {}}};
}

std::vector<TensorType> InferRootOfSums(const OpCall& call) {
  Check(!call.inputs.empty(), call, "needs an input");
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    Check(call.input(i) == TensorType{DType::kFloat64, {}}, call, "inputs must be f64 scalars");
  }
  return {{DType::kFloat32, {}}};
}

graph::Cost GlobalNormCost(const OpCall& call) {
  double elements = 0;
  for (const TensorType* type : call.inputs)
    elements += static_cast<double>(type->shape.elements());
  return {2 * elements, ArgumentBytes(call)};
}

std::vector<TensorType> InferClipFactor(const OpCall& call) {
  CheckFloat32Scalar(call, 0);
  Check(call.attributes.GetReal("max_norm") > 0, call, "max_norm must be positive");
  return {call.input(0)};
}

OpDef SumOp(std::string name, double flops, void (*gradient)(GradientContext&)) {
  return {
      .name = std::move(name),
      .inputs = {{"x"}},
      .outputs = {{"y"}},
      .infer = &InferSum,
      .gradient = gradient,
      .cost = FlopsPerElement(flops),
      .precision = {Precision::kFloat32,
                    "a sum over many elements, and a result that is read as it is"},
  };
}

OpDef NormOp(std::string name, std::string input, std::vector<TensorType> (*infer)(const OpCall&)) {
  return {
      .name = std::move(name),
      .inputs = {{std::move(input)}},
      .outputs = {{"norm"}},
      .variadic = true,
      .infer = infer,
      .gradient = {},
      .cost = &GlobalNormCost,
  };
}

const OpRegistration kSum(SumOp("sum", 1, &SumGradient));
const OpRegistration kSquaredNorm(SumOp("squared_norm", 2, &SquaredNormGradient));
const OpRegistration kGlobalNorm(NormOp("global_norm", "x", &InferGlobalNorm));
const OpRegistration kRootOfSums(NormOp("root_of_sums", "sum", &InferRootOfSums));

const OpRegistration kSquareSum({
    .name = "square_sum",
    .inputs = {{"x"}},
    .outputs = {{"sum"}},
    .infer = &InferSquareSum,
    .gradient = {},
    .cost = FlopsPerElement(2),
});

const OpRegistration kClipFactor({
    .name = "clip_factor",
    .inputs = {{"norm"}},
    .outputs = {{"factor"}},
    .infer = &InferClipFactor,
    .gradient = {},
    .cost = FlopsPerElement(3),
    .in_place = {{0, 0}},
});

const CudaWorkspaceRegistration kSumWorkspace("sum", &SumChunksBytes);
const CudaWorkspaceRegistration kSquaredNormWorkspace("squared_norm", &SumChunksBytes);
const CudaWorkspaceRegistration kGlobalNormWorkspace("global_norm", &SumChunksBytes);
const CudaWorkspaceRegistration kSquareSumWorkspace("square_sum", &SumChunksBytes);
const CudaWorkspaceRegistration kRootOfSumsWorkspace("root_of_sums", &SumChunksBytes);

}  // namespace

Value Sum(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("sum", {x}, {}, name);
}

Value SquaredNorm(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("squared_norm", {x}, {}, name);
}

Value GlobalNorm(graph::Builder& g, const std::vector<Value>& tensors, std::string_view name) {
  return g.Emit1("global_norm", tensors, {}, name);
}

Value SquareSum(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("square_sum", {x}, {}, name);
}

Value RootOfSums(graph::Builder& g, const std::vector<Value>& sums, std::string_view name) {
  return g.Emit1("root_of_sums", sums, {}, name);
}

Value ClipFactor(graph::Builder& g, Value norm, double max_norm, std::string_view name) {
  return g.Emit1("clip_factor", {norm}, {{"max_norm", max_norm}}, name);
}

}  // namespace plimsoll::ops
