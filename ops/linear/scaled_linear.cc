#include "ops/linear/scaled_linear.h"

#include <fmt/format.h>

#include "graph/op.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/linear/cuda_gemm_workspace.h"

namespace plimsoll::ops {

using graph::Check;
using graph::DType;
using graph::OpCall;
using graph::Shape;
using graph::TensorType;

std::string WhyNotScaled(const ScaledProduct& product) {
  constexpr int64_t kStep = 16;  // codes in 16 bytes; rows begin at multiples of it
  if (product.k % kStep != 0) return fmt::format("{} inputs, no multiple of 16", product.k);
  if (product.n % kStep != 0) return fmt::format("{} outputs, no multiple of 16", product.n);
  if (product.m == 0 || product.n == 0 || product.k == 0) return "nothing to multiply";
  if (product.x == DType::kFloat8E5M2 && product.weight == DType::kFloat8E5M2) {
    return "both operands in e5m2";
  }
  if (product.bias && product.result == DType::kFloat32) return "a bias in float32";
  return "";
}

namespace {

constexpr size_t kBias = 4, kAcc = 5, kRng = 6;

std::vector<TensorType> InferScaledLinear(const OpCall& call) {
  const TensorType &x = call.input(0), &weight = call.input(1);
  Check(graph::IsFloat8(x.dtype) && graph::IsFloat8(weight.dtype), call, "needs 8-bit codes");
  Check(x.shape.rank() >= 1 && weight.shape.rank() == 2 && x.shape.dim(-1) == weight.shape.dim(1),
        call, "needs x[...,K] and weight[N,K]");
  CheckFloat32Scalar(call, 2);
  CheckFloat32Scalar(call, 3);
  const auto dtype = graph::ParseDType(call.attributes.GetWord("dtype"));
  Check(dtype == DType::kFloat32 || (dtype && graph::IsLowPrecision(*dtype)), call,
        "dtype is none of f32, bf16, f16");
  const int64_t n = weight.shape.dim(0);
  const TensorType y{*dtype, x.shape.WithLast(n)};
  CheckAbsentOr(call, kBias, {*dtype, {n}});
  CheckAbsentOr(call, kAcc, y);
  if (call.attributes.Has("low_gradient")) {
    Check(*dtype == DType::kBFloat16, call, "a low gradient is bf16");
    Check(!call.has_input(kBias), call, "a low gradient has no bias");
    CheckRng(call, kRng);
  }
  const std::string why_not = WhyNotScaled(
      {x.shape.rows(), n, x.shape.dim(-1), x.dtype, weight.dtype, *dtype, call.has_input(kBias)});
  Check(why_not.empty(), call, why_not);
  return {y};
}

graph::Cost ScaledLinearCost(const OpCall& call) {
  graph::Cost cost;
  const Shape& weight = call.input(1).shape;
  cost.flops = 2 * static_cast<double>(call.input(0).shape.rows()) *
               static_cast<double>(weight.dim(0)) * static_cast<double>(weight.dim(1));
  cost.products = cost.flops;
  cost.bytes = ArgumentBytes(call);
  return cost;
}

// The workspace for a gradient that is added to in bf16: it holds slices of the gradient in float32
// (cuda/products/low_gradient.h).
int64_t ScaledLinearWorkspace(const OpCall& call) {
  const bool added = call.attributes.Has("low_gradient") && call.has_input(kAcc);
  const Shape& weight = call.input(1).shape;
  return kGemmWorkspaceBytes +
         (added ? LowGradientBytes(call.input(0).shape.rows(), weight.dim(0)) : 0);
}

const graph::OpRegistration kScaledLinear({
    .name = "scaled_linear",
    .inputs = {{"x"},
               {"weight"},
               {"x_scale"},
               {"weight_scale"},
               {"bias", true},
               {"acc", true},
               {"rng", true}},
    .outputs = {{"y"}},
    .infer = &InferScaledLinear,
    .gradient = {},
    .cost = &ScaledLinearCost,
    .in_place = {{static_cast<int>(kAcc), 0}},
    .random = true,
    .cost_class = graph::CostClass::kProducts,
    .low_gradients = {{static_cast<int>(kAcc), 0}},
});

const CudaWorkspaceRegistration kWorkspace("scaled_linear", &ScaledLinearWorkspace);

}  // namespace
}  // namespace plimsoll::ops
