#include "ops/norms/spectral_norm.h"

#include <vector>

#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/norms/spectral_sums.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

// Checks the weight, and returns the types of u and v.
std::vector<TensorType> TypesOfVectors(const OpCall& call) {
  const TensorType& weight = call.input(0);
  Check(graph::IsFloat(weight.dtype) && weight.shape.rank() >= 2 && weight.shape.elements() > 0,
        call, "weight must be floating, [O,...]");
  const graph::Shape row(weight.shape.dims().subspan(1));
  return {{DType::kFloat32, {weight.shape.dim(0)}}, {DType::kFloat32, row}};
}

// Checks inputs 1 and 2, which are u and v. Returns the type of σ.
TensorType CheckVectors(const OpCall& call) {
  const std::vector<TensorType> vectors = TypesOfVectors(call);
  Check(call.input(1) == vectors[0] && call.input(2) == vectors[1], call,
        "u and v must be f32[O] and f32[...] of the weight [O,...]");
  return {graph::ComputeType(call.input(0).dtype), {}};
}

std::vector<TensorType> InferPowerIteration(const OpCall& call) {
  const std::vector<TensorType> vectors = TypesOfVectors(call);
  Check(call.input(1) == vectors[1], call, "v must be f32[...] of the weight [O,...]");
  return vectors;
}

std::vector<TensorType> InferSpectralNorm(const OpCall& call) {
  const TensorType sigma = CheckVectors(call);
  return {call.input(0), sigma};
}

// dy of a 16-bit weight may be float32, because sums of gradients are.
void SpectralNormGradient(GradientContext& context) {
  if (!context.wants(0)) return;
  graph::Builder& g = context.builder();
  const DType wide = graph::ComputeType(g.dtype(context.input(0)));
  Value dy = context.output_gradient(0);
  if (g.dtype(dy) != wide) dy = Cast(g, dy, wide);
  context.SetGradient(
      0, g.Emit1("spectral_norm_backward", {context.input(0), context.input(1), context.input(2),
                                            context.output(1), dy, context.TakePartial(0)}));
}

std::vector<TensorType> InferSpectralNormBackward(const OpCall& call) {
  const TensorType sigma = CheckVectors(call);
  Check(call.input(3) == sigma, call, "sigma must be a scalar in the compute type of weight");
  const TensorType gradient = {sigma.dtype, call.input(0).shape};
  Check(call.input(4) == gradient, call, "dy must be as weight, in its compute type");
  CheckAbsentOr(call, 5, gradient);
  return {gradient};
}

const OpRegistration kPowerIteration({
    .name = "power_iteration",
    .inputs = {{"weight"}, {"v"}},
    .outputs = {{"u"}, {"v"}},
    .infer = &InferPowerIteration,
    .gradient = {},
    .cost = FlopsPerElement(4),
    .stops_gradient = true,
    .precision = {.precision = Precision::kFloat32,
                  .reason = "small changes of carried vectors",
                  .float32_inputs = {1}},
});

const OpRegistration kSpectralNorm({
    .name = "spectral_norm",
    .inputs = {{"weight"}, {"u"}, {"v"}},
    .outputs = {{"y"}, {"sigma", true}},
    .infer = &InferSpectralNorm,
    .gradient = &SpectralNormGradient,
    .cost = FlopsPerElement(3),
    .precision = {.precision = Precision::kFloat32,
                  .reason = "a sum over the whole weight; the quotient is rounded where it is read",
                  .float32_inputs = {1, 2}},
});

const OpRegistration kSpectralNormBackward({
    .name = "spectral_norm_backward",
    .inputs = {{"weight"}, {"u"}, {"v"}, {"sigma"}, {"dy"}, {"acc", true}},
    .outputs = {{"dweight"}},
    .infer = &InferSpectralNormBackward,
    .gradient = {},
    .cost = FlopsPerElement(7),
    .in_place = {{4, 0}, {5, 0}},
});

const CudaWorkspaceRegistration kPowerIterationWorkspace("power_iteration", [](const OpCall& call) {
  return SpectralSums(call.input(0).shape).of_columns() * int64_t{sizeof(float)};
});
const CudaWorkspaceRegistration kSpectralNormWorkspace("spectral_norm", [](const OpCall& call) {
  return SpectralSums(call.input(0).shape).of_rows() * int64_t{sizeof(float)};
});
const CudaWorkspaceRegistration kSpectralNormBackwardWorkspace(
    "spectral_norm_backward", [](const OpCall& call) {
      return SpectralSums(call.input(0).shape).of_rows() * int64_t{sizeof(float)};
    });

}  // namespace

SingularVectors PowerIteration(graph::Builder& g, Value weight, Value v, std::string_view name) {
  const std::vector<Value> vectors = g.Emit("power_iteration", {weight, v}, {}, name);
  return {vectors[0], vectors[1]};
}

Value SpectralNorm(graph::Builder& g, Value weight, const SingularVectors& vectors,
                   std::string_view name) {
  return g.Emit1("spectral_norm", {weight, vectors.u, vectors.v}, {}, name);
}

}  // namespace plimsoll::ops
