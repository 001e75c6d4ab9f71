#include "ops/elementwise/activations.h"

#include <string>
#include <utility>

#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/reductions/cuda_column_sums.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::InPlacePair;
using graph::OpCall;
using graph::OpRegistration;
using graph::OpRegistry;
using graph::Precision;
using graph::Shape;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

void CheckSlope(const OpCall& call) {
  const double slope = call.attributes.GetReal("slope");
  Check(slope > 0 && slope < 1, call, "the slope must be above 0 and below 1");
}

void CheckApproximate(const OpCall& call) {
  const std::string& approximate = call.attributes.GetWord("approximate");
  Check(approximate == "tanh" || approximate == "none", call, "approximate must be tanh or none");
}

void CheckCap(const OpCall& call) {
  Check(call.attributes.GetReal("cap") > 0, call, "the cap must be above 0");
}

// The type of gate, of up, and of y.
TensorType HalfOf(const OpCall& call) {
  const TensorType& gate_up = call.input(0);
  Check(
      graph::IsFloat(gate_up.dtype) && gate_up.shape.rank() >= 1 && gate_up.shape.dim(-1) % 2 == 0,
      call, "gate_up must be floating, [...,2F]");
  return {gate_up.dtype, gate_up.shape.WithLast(gate_up.shape.dim(-1) / 2)};
}

std::vector<TensorType> InferGated(const OpCall& call) { return {HalfOf(call)}; }

std::vector<TensorType> InferGatedBackward(const OpCall& call) {
  Check(call.input(1) == HalfOf(call), call, "dy must be [...,F]");
  return {call.input(0)};
}

// Defines two ops: NAME (x) → y and NAME_backward (x or y, dy) → dx, with the same attributes.
struct ActivationOps {
  std::string name;
  double flops, backward_flops;  // per element of x
  bool backward_reads_y = false;
  std::string_view reason = "computed in float32, rounded once";
  void (*check)(const OpCall&) = [](const OpCall&) {};  // checks the attributes
  bool gated = false;                                   // x is gate_up, and y is half of it
  bool finds_largest = false;                           // the largest magnitude of y, and of dx

  void Register() const;
};

void ActivationOps::Register() const {
  const std::string x = gated ? "gate_up" : "x", backward = name + "_backward";
  const std::vector<int> finds = finds_largest ? std::vector<int>{0} : std::vector<int>{};
  const auto outputs = [&](const std::string& result) {
    std::vector<graph::Argument> all = {{result}};
    if (finds_largest) all.push_back({"largest", true});
    return all;
  };
  const auto infer = [check = check](auto* infer_types) {
    return [=](const OpCall& call) {
      check(call);
      return WithLargest(call, infer_types(call));
    };
  };
  OpRegistry::Get().Add({
      .name = name,
      .inputs = {{x}},
      .outputs = outputs("y"),
      .infer = infer(gated ? &InferGated : &LikeFloatInput0),
      .gradient =
          [=, reads_y = backward_reads_y](GradientContext& ctx) {
            if (!ctx.wants(0)) return;
            const Value kept = reads_y ? ctx.output(0) : ctx.input(0);
            ctx.SetGradient(
                0, ctx.builder().Emit1(backward, {kept, ctx.output_gradient(0)}, ctx.attributes()));
          },
      .cost = FlopsPerElement(flops),
      .in_place = gated ? std::vector<InPlacePair>{} : std::vector<InPlacePair>{{0, 0}},
      .precision = {Precision::kLowStorage, reason},
      .sharding = {.follows = ShardingRule::kElements},
      .cheap_to_recompute = true,
      .recompute_preset = "activations",
      .finds_largest = finds,
  });
  OpRegistry::Get().Add({
      .name = backward,
      .inputs = {{backward_reads_y ? "y" : x}, {"dy"}},
      .outputs = outputs("d" + x),
      .infer = infer(gated ? &InferGatedBackward : &LikeEqualFloatInputs),
      .gradient = {},
      .cost = FlopsPerElement(backward_flops),
      .in_place =
          gated ? std::vector<InPlacePair>{{0, 0}} : std::vector<InPlacePair>{{0, 0}, {1, 0}},
      .finds_largest = finds,
  });
}

const bool kActivationsRegistered = [] {
  const ActivationOps all[] = {
      {"relu", 1, 1, /*backward_reads_y=*/true, "chooses between x and 0, rounds nothing"},
      {"leaky_relu", 2, 2, /*backward_reads_y=*/true, "one rounding per element", &CheckSlope},
      {"sigmoid", 4, 3, /*backward_reads_y=*/true},
      {"tanh", 5, 3, /*backward_reads_y=*/true},
      {"silu", 5, 9},
      {.name = "gelu",
       .flops = 10,
       .backward_flops = 18,
       .check = &CheckApproximate,
       .finds_largest = true},
      {.name = "softcap", .flops = 7, .backward_flops = 9, .check = &CheckCap},
      {.name = "swiglu", .flops = 3, .backward_flops = 6, .gated = true, .finds_largest = true},
      {.name = "geglu", .flops = 6, .backward_flops = 11, .gated = true, .finds_largest = true},
  };
  for (const ActivationOps& ops : all) ops.Register();
  return true;
}();

std::vector<TensorType> InferGeluWithBackward(const OpCall& call) {
  CheckApproximate(call);
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() >= 1 && call.input(1) == x, call,
        "x and dy must be floating, [...,N], of one type");
  const TensorType dbias{graph::ComputeType(x.dtype), {x.shape.dim(-1)}};
  CheckAbsentOr(call, 2, dbias);
  return WithLargest(call, {x, x, dbias});
}

graph::Cost GeluWithBackwardCost(const OpCall& call) {
  const double flops = 18 + (call.has_output(0) ? 2 : 0) + (call.has_output(2) ? 1 : 0);
  return {flops * static_cast<double>(call.input(0).shape.elements()), ArgumentBytes(call)};
}

int64_t GeluWithBackwardCudaWorkspace(const OpCall& call) {
  const Shape& x = call.input(0).shape;
  return call.has_output(2) ? ColumnSumsBytes(x.rows(), x.dim(-1)) : 0;
}

const OpRegistration kGeluWithBackward({
    .name = "gelu_with_backward",
    .inputs = {{"x"}, {"dy"}, {"acc_bias", true}},
    .outputs = {{"y", true}, {"dx"}, {"dbias", true}, {"largest_y", true}, {"largest_dx", true}},
    .infer = &InferGeluWithBackward,
    .gradient = {},
    .cost = &GeluWithBackwardCost,
    .in_place = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 2}},
    .finds_largest = {0, 1},
});

const CudaWorkspaceRegistration kGeluWorkspace("gelu_with_backward",
                                               &GeluWithBackwardCudaWorkspace);

std::vector<TensorType> InferGatedWithBackward(const OpCall& call) {
  Check(call.input(1) == HalfOf(call), call, "dy must be [...,F]");
  return WithLargest(call, {HalfOf(call), call.input(0)});
}

graph::OpDef GatedWithBackward(std::string name, double flops) {
  return {
      .name = std::move(name),
      .inputs = {{"gate_up"}, {"dy"}},
      .outputs = {{"y"}, {"dgate_up"}, {"largest_y", true}, {"largest_dgate_up", true}},
      .infer = &InferGatedWithBackward,
      .gradient = {},
      .cost = FlopsPerElement(flops),
      .in_place = {{0, 1}, {1, 0}},
      .finds_largest = {0, 1},
  };
}

const OpRegistration kSwigluWithBackward(GatedWithBackward("swiglu_with_backward", 7));
const OpRegistration kGegluWithBackward(GatedWithBackward("geglu_with_backward", 12));

}  // namespace

Value Relu(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("relu", {x}, {}, name);
}

Value LeakyRelu(graph::Builder& g, Value x, double slope, std::string_view name) {
  return g.Emit1("leaky_relu", {x}, {{"slope", slope}}, name);
}

Value Sigmoid(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("sigmoid", {x}, {}, name);
}

Value Tanh(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("tanh", {x}, {}, name);
}

Value Silu(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("silu", {x}, {}, name);
}

Value Gelu(graph::Builder& g, Value x, std::string_view approximate, std::string_view name) {
  return g.Emit1("gelu", {x}, {{"approximate", std::string(approximate)}}, name);
}

Value Swiglu(graph::Builder& g, Value gate_up, std::string_view name) {
  return g.Emit1("swiglu", {gate_up}, {}, name);
}

Value Geglu(graph::Builder& g, Value gate_up, std::string_view name) {
  return g.Emit1("geglu", {gate_up}, {}, name);
}

Value Softcap(graph::Builder& g, Value x, double cap, std::string_view name) {
  return g.Emit1("softcap", {x}, {{"cap", cap}}, name);
}

}  // namespace plimsoll::ops
