#include "ops/optimizer/optimizer.h"

#include "base/error.h"
#include "ops/definition.h"
#include "ops/optimizer/moment_check.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::Cost;
using graph::DType;
using graph::kNoTensor;
using graph::OpCall;
using graph::OpRegistration;
using graph::TensorType;
using graph::Value;

// The type of an output whose state is absent: nothing is written to it.
const TensorType kNothing = {DType::kFloat32, {0}};

std::string Quoted(const OpCall& call, size_t input) {
  return "'" + call.op.inputs[input].name + "'";
}

void CheckApply(const OpCall& call, size_t input) {
  CheckAbsentOr(call, input, {DType::kInt32, {}});
}

// Checks p and the gradient, and that master is a remainder, a master weight or absent. Returns
// master's type.
TensorType CheckWeight(const OpCall& call, size_t master, size_t rng) {
  const TensorType& p = call.input(0);
  Check(graph::IsFloat(p.dtype), call, "p must be floating");
  const TensorType& g = call.input(1);
  const DType whole = graph::ComputeType(p.dtype);
  Check(g.shape == p.shape &&
            (g.dtype == whole || (g.dtype == DType::kBFloat16 && whole == DType::kFloat32)),
        call, "'g' must be of p's shape, and f32 or bf16, or f64 as p");
  if (!call.has_input(master)) {
    Check(p.dtype != DType::kFloat16, call, "p of type f16 needs a master");
    Check(p.dtype != DType::kBFloat16 || call.has_input(rng), call,
          "p of type bf16 needs a master, or rng to round stochastically");
    return kNothing;
  }
  const TensorType& type = call.input(master);
  const bool fits = type.dtype == DType::kFloat32
                        ? graph::IsLowPrecision(p.dtype)
                        : type.dtype == DType::kInt16 && p.dtype == DType::kBFloat16;
  Check(fits && type.shape == p.shape, call,
        "'master' must be f32 for p bf16 or f16, or i16 for p bf16, and of p's shape");
  return type;
}

// Checks a moment of the parameter that is present. Returns the type of its scales.
TensorType CheckMomentOf(const OpCall& call, const Encoding& encoding, size_t moment, size_t scales,
                         size_t rng) {
  const TensorType& p = call.input(0);
  return CheckMoment(call, {graph::ComputeType(p.dtype), p.shape}, encoding, moment, scales, rng);
}

// A factor of 1 is not stored as the attribute "lr_factor".
void CheckLrFactor(const OpCall& call) {
  if (!call.attributes.Has("lr_factor")) return;
  Check(call.attributes.GetReal("lr_factor") >= 0, call, "lr_factor must not be negative");
}

void CheckFirstElement(const OpCall& call) {
  const int64_t first = FirstElement(call.attributes);
  Check(first >= 0 && first % kStateBlock == 0, call,
        "first_element must be a multiple of the elements that share a scale");
}

graph::Attributes WithLrFactor(graph::Attributes attributes, double factor) {
  if (factor != 1) attributes.Set("lr_factor", factor);
  return attributes;
}

void CheckRandom(const OpCall& call, size_t rng) {
  if (!call.has_input(rng)) return;
  CheckRng(call, rng);
  call.attributes.GetInt("key");
}

std::vector<TensorType> InferIncrement(const OpCall& call) {
  Check(call.input(0) == TensorType{DType::kInt32, {}}, call, "count must be i32[]");
  CheckApply(call, 1);
  return {call.input(0)};
}

std::vector<TensorType> InferAdamW(const OpCall& call) {
  const TensorType master = CheckWeight(call, 8, 11);
  const TensorType m_scales = CheckMomentOf(call, kMomentEncoding, 2, 9, 11);
  const TensorType v_scales = CheckMomentOf(call, kSecondMomentEncoding, 3, 10, 11);
  CheckFloat32Scalar(call, 4);
  Check(call.input(5) == TensorType{DType::kInt32, {}}, call, "count must be i32[]");
  if (call.has_input(6)) CheckFloat32Scalar(call, 6);
  CheckApply(call, 7);
  CheckRandom(call, 11);
  CheckLrFactor(call);
  CheckFirstElement(call);
  return {call.input(0), call.input(2), call.input(3), master, m_scales, v_scales};
}

std::vector<TensorType> InferSgd(const OpCall& call) {
  const TensorType master = CheckWeight(call, 6, 8);
  const bool has_momentum = call.has_input(2);
  const TensorType scales = has_momentum ? CheckMomentOf(call, kMomentEncoding, 2, 7, 8) : kNothing;
  CheckFloat32Scalar(call, 3);
  if (call.has_input(4)) CheckFloat32Scalar(call, 4);
  CheckApply(call, 5);
  Check(has_momentum || call.attributes.GetReal("momentum") == 0, call, "momentum needs a buffer");
  CheckRandom(call, 8);
  CheckLrFactor(call);
  CheckFirstElement(call);
  return {call.input(0), has_momentum ? call.input(2) : kNothing, master, scales};
}

// Every argument is moved once in its stored form. Exception: a weight with a float32 master is
// only written.
double UpdateBytes(const OpCall& call, size_t master) {
  const bool unread = call.has_input(master) && call.input(master).dtype == DType::kFloat32;
  return ArgumentBytes(call) - (unread ? static_cast<double>(call.input(0).bytes()) : 0);
}

Cost AdamWCost(const OpCall& call) {
  const double elements = static_cast<double>(call.input(0).shape.elements());
  return {15 * elements, UpdateBytes(call, 8)};
}

Cost SgdCost(const OpCall& call) {
  double flops = 5;  // FLOPs per element for clipping, decay and step
  if (call.has_input(2)) flops += call.attributes.GetBool("nesterov") ? 4 : 2;
  return {flops * static_cast<double>(call.input(0).shape.elements()), UpdateBytes(call, 6)};
}

const OpRegistration kIncrement({
    .name = "increment",
    .inputs = {{"count"}, {"apply", true}},
    .outputs = {{"count"}},
    .infer = &InferIncrement,
    .gradient = {},
    .cost = {},
    .in_place = {{0, 0}},
});

const OpRegistration kAdamW({
    .name = "adamw",
    .inputs = {{"p"},
               {"g"},
               {"m"},
               {"v"},
               {"lr"},
               {"count"},
               {"clip", true},
               {"apply", true},
               {"master", true},
               {"m_scales", true},
               {"v_scales", true},
               {"rng", true}},
    .outputs = {{"p"}, {"m"}, {"v"}, {"master", true}, {"m_scales", true}, {"v_scales", true}},
    .infer = &InferAdamW,
    .gradient = {},
    .cost = &AdamWCost,
    .in_place = {{0, 0}, {2, 1}, {3, 2}, {8, 3}, {9, 4}, {10, 5}},
    .random = true,
    .shares_launches = true,
});

const OpRegistration kSgd({
    .name = "sgd",
    .inputs = {{"p"},
               {"g"},
               {"momentum", true},
               {"lr"},
               {"clip", true},
               {"apply", true},
               {"master", true},
               {"momentum_scales", true},
               {"rng", true}},
    .outputs = {{"p"}, {"momentum", true}, {"master", true}, {"momentum_scales", true}},
    .infer = &InferSgd,
    .gradient = {},
    .cost = &SgdCost,
    .in_place = {{0, 0}, {2, 1}, {6, 2}, {7, 3}},
    .random = true,
    .shares_launches = true,
});

// Emits a node that writes `updated`, persistent tensors, in place. It has the input `rng` only if
// it is to draw random numbers. Absent inputs at the end are left out.
void EmitUpdate(graph::Builder& g, std::string_view op, std::vector<Value> inputs,
                graph::Attributes attributes, std::vector<Value> updated, Value rng = kNoTensor,
                bool random = false) {
  for (Value value : updated) {
    if (value != kNoTensor && !g.program().tensor(value).persistent) {
      throw InternalError(std::string(op) + ": tensor '" + g.program().tensor(value).name +
                          "' is updated in place but not persistent");
    }
  }
  if (random) {
    inputs.push_back(rng);
    attributes.Set("key", g.NextKey());
  }
  while (inputs.back() == kNoTensor) inputs.pop_back();
  g.EmitInto(std::move(updated), op, std::move(inputs), std::move(attributes));
}

}  // namespace

TensorType CheckMoment(const OpCall& call, const TensorType& whole, const Encoding& encoding,
                       size_t moment, size_t scales, size_t rng) {
  const TensorType& type = call.input(moment);
  Check(type.shape == whole.shape, call, Quoted(call, moment) + " must have p's shape");
  if (type.dtype != encoding.codes) {
    Check(type.dtype == whole.dtype ||
              (type.dtype == DType::kBFloat16 && whole.dtype == DType::kFloat32),
          call, Quoted(call, moment) + " must be f32, bf16 or u8, or f64 as p");
    Check(type.dtype == whole.dtype || call.has_input(rng), call,
          Quoted(call, moment) + " of type bf16 needs rng");
    Check(!call.has_input(scales), call, Quoted(call, moment) + " has scales but is not u8");
    return kNothing;
  }
  Check(whole.dtype == DType::kFloat32, call, Quoted(call, moment) + " must be f64 as p");
  const TensorType expected = encoding.ScalesType(whole.shape);
  Check(call.has_input(scales) && call.input(scales) == expected, call,
        Quoted(call, moment) + " of type u8 needs scales " + expected.ToString());
  return expected;
}

int64_t FirstElement(const graph::Attributes& attributes) {
  return attributes.Has("first_element") ? attributes.GetInt("first_element") : 0;
}

bool StoredWeight::RoundsStochastically(const graph::Builder& g) const {
  return master == kNoTensor && graph::IsLowPrecision(g.dtype(p));
}

bool StoredMoment::RoundsStochastically(const graph::Builder& g) const {
  return values != kNoTensor && g.dtype(values) == DType::kBFloat16;
}

void Increment(graph::Builder& g, Value count, Value apply) {
  EmitUpdate(g, "increment", {count, apply}, {}, {count});
}

void AdamW(graph::Builder& g, StoredWeight weight, Value gradient, StoredMoment m, StoredMoment v,
           Value count, const UpdateInputs& common, const AdamWOptions& options) {
  const bool random =
      weight.RoundsStochastically(g) || m.RoundsStochastically(g) || v.RoundsStochastically(g);
  EmitUpdate(g, "adamw",
             {weight.p, gradient, m.values, v.values, common.lr, count, common.clip, common.apply,
              weight.master, m.scales, v.scales},
             WithLrFactor({{"beta1", options.beta1},
                           {"beta2", options.beta2},
                           {"eps", options.eps},
                           {"weight_decay", options.weight_decay}},
                          options.lr_factor),
             {weight.p, m.values, v.values, weight.master, m.scales, v.scales}, common.rng, random);
}

void Sgd(graph::Builder& g, StoredWeight weight, Value gradient, StoredMoment momentum,
         const UpdateInputs& common, const SgdOptions& options) {
  const bool random = weight.RoundsStochastically(g) || momentum.RoundsStochastically(g);
  EmitUpdate(g, "sgd",
             {weight.p, gradient, momentum.values, common.lr, common.clip, common.apply,
              weight.master, momentum.scales},
             WithLrFactor({{"momentum", options.momentum},
                           {"nesterov", options.nesterov},
                           {"weight_decay", options.weight_decay}},
                          options.lr_factor),
             {weight.p, momentum.values, weight.master, momentum.scales}, common.rng, random);
}

}  // namespace plimsoll::ops
