#include "ops/optimizer/muon.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "ops/definition.h"
#include "ops/linear/matmul.h"
#include "ops/optimizer/moment_check.h"
#include "ops/reductions/reduce.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::Check;
using graph::Cost;
using graph::DType;
using graph::kNoTensor;
using graph::OpCall;
using graph::OpRegistration;
using graph::TensorType;
using graph::Value;

// The coefficients a, b and c of Newton-Schulz. Jordan's have the steepest slope at zero with which
// five steps bring singular values near one.
constexpr double kNewtonSchulz[] = {3.4445, -4.7750, 2.0315};

// The inputs of muon_momentum.
struct MuonInput {
  enum : size_t { kGradient, kBuffer, kClip, kApply, kScales, kRng };
};

std::vector<TensorType> InferMuonMomentum(const OpCall& call) {
  const TensorType& g = call.input(MuonInput::kGradient);
  const DType whole = graph::ComputeType(g.dtype);
  Check(g.dtype == whole || g.dtype == DType::kBFloat16, call, "'g' must be f32, bf16 or f64");
  const TensorType scales = CheckMoment(call, {whole, g.shape}, kMomentEncoding, MuonInput::kBuffer,
                                        MuonInput::kScales, MuonInput::kRng);
  if (call.has_input(MuonInput::kClip)) CheckFloat32Scalar(call, MuonInput::kClip);
  CheckAbsentOr(call, MuonInput::kApply, {DType::kInt32, {}});
  if (call.has_input(MuonInput::kRng)) {
    CheckRng(call, MuonInput::kRng);
    call.attributes.GetInt("key");
  }
  call.attributes.GetReal("momentum");
  call.attributes.GetBool("nesterov");
  return {{whole, g.shape}, call.input(MuonInput::kBuffer), scales};
}

Cost MuonMomentumCost(const OpCall& call) {
  const double flops = call.attributes.GetBool("nesterov") ? 5 : 3;
  return {flops * static_cast<double>(call.input(MuonInput::kGradient).shape.elements()),
          ArgumentBytes(call)};
}

const OpRegistration kMuonMomentum({
    .name = "muon_momentum",
    .inputs = {{"g"}, {"buffer"}, {"clip", true}, {"apply", true}, {"scales", true}, {"rng", true}},
    .outputs = {{"u"}, {"buffer"}, {"scales", true}},
    .infer = &InferMuonMomentum,
    .gradient = {},
    .cost = &MuonMomentumCost,
    .in_place = {{0, 0}, {1, 1}, {4, 2}},
    .random = true,
});

std::vector<TensorType> InferDivideByNorm(const OpCall& call) {
  Check(graph::IsFloat(call.input(0).dtype), call, "'x' must be floating");
  CheckFloat32Scalar(call, 1);
  Check(call.attributes.GetReal("eps") > 0, call, "eps must be positive");
  const auto dtype = graph::ParseDType(call.attributes.GetWord("dtype"));
  Check(dtype.has_value() && graph::IsFloat(*dtype), call, "dtype must be floating");
  return {{*dtype, call.input(0).shape}};
}

const OpRegistration kDivideByNorm({
    .name = "divide_by_norm",
    .inputs = {{"x"}, {"norm"}},
    .outputs = {{"y"}},
    .infer = &InferDivideByNorm,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .in_place = {{0, 0}},
});

std::vector<TensorType> InferWeightedSum(const OpCall& call) {
  call.attributes.GetReal("alpha");
  call.attributes.GetReal("beta");
  return LikeEqualFloatInputs(call);
}

const OpRegistration kWeightedSum({
    .name = "weighted_sum",
    .inputs = {{"x"}, {"y"}},
    .outputs = {{"z"}},
    .infer = &InferWeightedSum,
    .gradient = {},
    .cost = FlopsPerElement(3),
    .in_place = {{0, 0}, {1, 0}},
});

std::vector<TensorType> InferStackRows(const OpCall& call) {
  Check(!call.inputs.empty(), call, "needs an input");
  const TensorType& first = call.input(0);
  Check(graph::IsFloat(first.dtype) && first.shape.rank() == 2, call,
        "inputs must be floating matrices");
  int64_t rows = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorType& type = call.input(i);
    Check(type.dtype == first.dtype && type.shape.rank() == 2 &&
              type.shape.dim(1) == first.shape.dim(1),
          call, "inputs need one dtype and number of columns");
    rows += type.shape.dim(0);
  }
  return {{first.dtype, {rows, first.shape.dim(1)}}};
}

const OpRegistration kStackRows({
    .name = "stack_rows",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .variadic = true,
    .infer = &InferStackRows,
    .gradient = {},
    .cost = {},
});

}  // namespace

Value MuonMomentum(graph::Builder& g, Value gradient, StoredMoment buffer,
                   const UpdateInputs& common, const MuonMomentumOptions& options,
                   std::string_view name) {
  if (!g.program().tensor(buffer.values).persistent) {
    throw InternalError("muon_momentum: tensor '" + g.program().tensor(buffer.values).name +
                        "' is updated in place but not persistent");
  }
  std::vector<Value> inputs = {gradient,     buffer.values, common.clip,
                               common.apply, buffer.scales, kNoTensor};
  Attributes attributes = {{"momentum", options.momentum}, {"nesterov", options.nesterov}};
  if (buffer.RoundsStochastically(g)) {
    inputs.back() = common.rng;
    attributes.Set("key", g.NextKey());
  }
  while (inputs.back() == kNoTensor) inputs.pop_back();
  graph::Tensor u;
  u.name = g.program().FreshName(g.Qualified(name));
  u.type = {graph::ComputeType(g.dtype(gradient)), g.shape(gradient)};
  const Value direction = g.program().AddTensor(std::move(u));
  g.EmitInto({direction, buffer.values, buffer.scales}, "muon_momentum", std::move(inputs),
             std::move(attributes));
  return direction;
}

Value DivideByNorm(graph::Builder& g, Value x, Value norm, DType dtype, std::string_view name) {
  return g.Emit1("divide_by_norm", {x, norm},
                 {{"dtype", std::string(graph::Name(dtype))}, {"eps", 1e-7}}, name);
}

Value WeightedSum(graph::Builder& g, Value x, Value y, double alpha, double beta,
                  std::string_view name) {
  return g.Emit1("weighted_sum", {x, y}, {{"alpha", alpha}, {"beta", beta}}, name);
}

Value StackRows(graph::Builder& g, std::vector<Value> matrices, std::string_view name) {
  return g.Emit1("stack_rows", std::move(matrices), {}, name);
}

Value NewtonSchulz(graph::Builder& g, Value u, const NewtonSchulzOptions& options) {
  if (options.steps < 1) throw InternalError("newton_schulz: needs a step");
  const auto& [a, b, c] = kNewtonSchulz;
  const auto product = [&](Value left, Value right, bool trans_a, bool trans_b,
                           std::string_view name) {
    Attributes attributes = {{"trans_a", trans_a}, {"trans_b", trans_b}};
    if (options.tf32) attributes.Set("tf32", true);
    return g.Emit1("matmul", {left, right}, std::move(attributes), name);
  };
  const bool tall = g.shape(u).dim(0) > g.shape(u).dim(1);
  Value x = DivideByNorm(g, u, GlobalNorm(g, {u}, "muon.norm"), options.dtype, "muon.x");
  for (int64_t step = 0; step < options.steps; ++step) {
    const double factor = step + 1 == options.steps ? options.factor : 1;
    const Value gram = product(x, x, tall, !tall, "muon.gram");
    const Value square = product(gram, gram, false, false, "muon.square");
    const Value sum = WeightedSum(g, gram, square, b, c, "muon.sum");
    const Value moved = tall ? product(x, sum, false, false, "muon.product")
                             : product(sum, x, false, false, "muon.product");
    x = WeightedSum(g, x, moved, factor * a, factor, "muon.x");
  }
  return x;
}

}  // namespace plimsoll::ops
