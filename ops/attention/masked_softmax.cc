#include "ops/attention/masked_softmax.h"

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {

using graph::Attributes;
using graph::Check;
using graph::DType;
using graph::GradientContext;
using graph::kNoTensor;
using graph::OpCall;
using graph::Precision;
using graph::Shape;
using graph::TensorType;
using graph::Value;

Value MaskedSoftmax(graph::Builder& g, Value scores, Value lengths, bool causal, double scale,
                    std::string_view name) {
  std::vector<Value> inputs = {scores};
  if (lengths != kNoTensor) inputs.push_back(lengths);
  return g.Emit1("masked_softmax", inputs, Attributes{{"causal", causal}, {"scale", scale}}, name);
}

namespace {

// Whether these are scores [B,G,R,T], R being a multiple of T.
void CheckScores(const OpCall& call) {
  const TensorType& s = call.input(0);
  Check(graph::IsFloat(s.dtype) && s.shape.rank() == 4, call, "needs floats [B,G,R,T]");
  const int64_t rows = s.shape.dim(2), keys = s.shape.dim(3);
  Check(keys == 0 ? rows == 0 : rows % keys == 0, call, "has rows for a part of a sequence");
  Check(call.attributes.GetReal("scale") > 0, call, "needs a positive scale");
}

std::vector<TensorType> InferSoftmax(const OpCall& call) {
  CheckScores(call);
  CheckAbsentOr(call, 1, {DType::kInt32, Shape{call.input(0).shape.dim(0)}});
  return {call.input(0)};
}

std::vector<TensorType> InferSoftmaxBackward(const OpCall& call) {
  CheckScores(call);
  return LikeEqualFloatInputs(call);
}

void SoftmaxGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(
      0, ctx.builder().Emit1("masked_softmax_backward", {ctx.output(0), ctx.output_gradient(0)},
                             ctx.attributes()));
}

const graph::OpRegistration kMaskedSoftmax({
    .name = "masked_softmax",
    .inputs = {{"scores"}, {"lengths", true}},
    .outputs = {{"p"}},
    .infer = &InferSoftmax,
    .gradient = &SoftmaxGradient,
    .cost = FlopsPerElement(14),  // an exponential counts as 10
    .in_place = {{0, 0}},
    .precision = {Precision::kLowStorage, "exponentials and their sums in float32, rounded once"},
    .recompute_preset = "attention",
});

const graph::OpRegistration kMaskedSoftmaxBackward({
    .name = "masked_softmax_backward",
    .inputs = {{"p"}, {"dp"}},
    .outputs = {{"ds"}},
    .infer = &InferSoftmaxBackward,
    .gradient = {},
    .cost = FlopsPerElement(5),
    .in_place = {{1, 0}, {0, 0}},
});

}  // namespace
}  // namespace plimsoll::ops
