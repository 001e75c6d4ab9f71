#include "ops/gelu.h"

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::TensorType;
using graph::Value;

void CheckApproximate(const OpCall& call) {
  const std::string& approximate = call.attributes.GetWord("approximate");
  Check(approximate == "tanh" || approximate == "none", call, "approximate must be tanh or none");
}

std::vector<TensorType> InferGelu(const OpCall& call) {
  CheckApproximate(call);
  return LikeFloatInput0(call);
}

std::vector<TensorType> InferGeluBackward(const OpCall& call) {
  CheckApproximate(call);
  return LikeEqualFloatInputs(call);
}

void GeluGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(0, ctx.builder().Emit1("gelu_backward", {ctx.input(0), ctx.output_gradient(0)},
                                         ctx.attributes()));
}

const OpRegistration kGelu({
    .name = "gelu",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferGelu,
    .gradient = &GeluGradient,
    .cost = FlopsPerElement(10),
    .in_place = {{0, 0}},
});

const OpRegistration kGeluBackward({
    .name = "gelu_backward",
    .inputs = {{"x"}, {"dy"}},
    .outputs = {{"dx"}},
    .infer = &InferGeluBackward,
    .gradient = {},
    .cost = FlopsPerElement(18),
    .in_place = {{0, 0}, {1, 0}},
});

}  // namespace

Value Gelu(graph::Builder& g, Value x, std::string_view approximate, std::string_view name) {
  return g.Emit1("gelu", {x}, {{"approximate", std::string(approximate)}}, name);
}

}  // namespace plimsoll::ops
