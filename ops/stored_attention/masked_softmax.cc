// Softmax over the keys that a query may see, for attention whose scores are tensors.
// B batch, G heads of keys, R = (queries' heads / G)·T rows of queries, T sequence.
//
//   p[b,g,r,j]  = exp(scale · s[b,g,r,j]) / Σ_j exp(scale · s[b,g,r,j])   over the j that r sees,
//                 else 0
//   ds          = scale · p ∘ (dp − Σ_j p · dp)
//
//   masked_softmax          (s[B,G,R,T], lengths? i32[B])  → p
//   masked_softmax_backward (p, dp)                        → ds
//   attributes: causal, scale
//
// Row r is the query at position i = r mod T. Causal: it sees j ≤ i only. With lengths, row b of
// the batch consists of its first lengths[b] tokens. The others are padding: no query sees them,
// and their own rows are zero. A length outside [0, T] is an InternalError on a CPU when the op
// runs; a GPU takes the nearest valid length. All tensors have one floating dtype; maxima,
// exponentials and sums are f32 for the 16-bit types.
#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::GradientContext;
using graph::OpCall;
using graph::Precision;
using graph::Shape;
using graph::TensorType;

// Checks that the input has scores [B,G,R,T], where R is a multiple of T.
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
