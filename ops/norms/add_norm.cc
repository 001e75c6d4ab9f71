// An addition and the norm of its result as one op: the residual stream is read and written once.
// Made from `add` and `layer_norm` or `rms_norm` by FuseAddNorm (ops/fusions.h), with
// the same bits.
//
//   add_layer_norm: a, b [...,D], weight [D], bias [D] or absent → sum = a + b, y [...,D], and the
//     mean and rstd of each row of the sum.
//   add_rms_norm: the same without bias and mean.
//
// With an input rng after these, b is dropped before it is added (ops/norms/norm_dropout.h).
#include <algorithm>
#include <vector>

#include "graph/gradient.h"
#include "ops/definition.h"
#include "ops/norms/norm_dropout.h"
#include "ops/norms/unit_offset.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::kNoTensor;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

// Infers the types for both ops; the operands are those of the norm, with a and b instead of x.
std::vector<TensorType> InferSumAndNorm(const OpCall& call, bool mean) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() >= 1, call, "a must be floating, [...,D]");
  Check(call.input(1) == x, call, "b must be as a");
  const TensorType weight{x.dtype, {x.shape.dim(-1)}};
  Check(call.input(2) == weight, call, "weight must be [D]");
  HasDropout(call, mean ? 4 : 3);
  const TensorType statistic{graph::ComputeType(x.dtype), {x.shape.rows()}};
  if (!mean) return WithLargest(call, {x, x, statistic});
  CheckAbsentOr(call, 3, weight);
  return WithLargest(call, {x, x, statistic, statistic});
}

// The gradient of a and of b is the norm's gradient plus that of the sum. b's gradient is dropped
// like b.
void SumAndNormGradient(GradientContext& ctx, const char* backward, bool mean) {
  const Value dsum = ctx.output_gradient(0), dy = ctx.output_gradient(1);
  const size_t parameters = mean ? 2 : 1;
  const Value rng = ctx.input(2 + parameters);
  const bool drops = ctx.wants(1) && rng != kNoTensor;
  if (dy == kNoTensor) {
    if (ctx.wants(0)) ctx.SetGradient(0, dsum);
    if (ctx.wants(1)) {
      ctx.SetGradient(1, drops ? ctx.builder().Emit1("dropout", {dsum, rng},
                                                     Select(ctx.attributes(), {"p", "key", "axis"}))
                               : dsum);
    }
    return;
  }
  const bool wants_sum = ctx.wants(0) || ctx.wants(1);
  std::vector<bool> want = {drops ? ctx.wants(0) : wants_sum};
  std::vector<Value> inputs = {ctx.output(0), ctx.input(2), ctx.output(2)};
  if (mean) inputs.push_back(ctx.output(3));
  inputs.push_back(dy);
  inputs.push_back(wants_sum ? dsum : kNoTensor);
  for (size_t i = 2; i < 2 + parameters; ++i) {
    want.push_back(ctx.wants(i));
    inputs.push_back(ctx.wants(i) ? ctx.TakePartial(i) : kNoTensor);
  }
  graph::Attributes attributes = Select(ctx.attributes(), {"unit_offset"});
  if (drops) {
    want.push_back(true);
    inputs.push_back(rng);
    attributes = Select(ctx.attributes(), {"p", "key", "axis", "unit_offset"});
  }
  if (std::find(want.begin(), want.end(), true) == want.end()) return;
  const std::vector<Value> gradients = ctx.builder().Emit(backward, inputs, attributes, "", want);
  if (ctx.wants(0)) ctx.SetGradient(0, gradients[0]);
  if (ctx.wants(1)) ctx.SetGradient(1, drops ? gradients.back() : gradients[0]);
  for (size_t i = 0; i < parameters; ++i) {
    if (ctx.wants(2 + i)) ctx.SetGradient(2 + i, gradients[1 + i]);
  }
}

const OpRegistration kAddLayerNorm({
    .name = "add_layer_norm",
    .inputs = {{"a"}, {"b"}, {"weight"}, {"bias", true}, {"rng", true}},
    .outputs = {{"sum"},
                {"y"},
                {"mean", true},
                {"rstd", true},
                {"largest_sum", true},
                {"largest_y", true}},
    .infer = [](const OpCall& call) { return InferSumAndNorm(call, /*mean=*/true); },
    .gradient =
        [](GradientContext& ctx) { SumAndNormGradient(ctx, "layer_norm_backward", /*mean=*/true); },
    .cost = FlopsPerElement(9),
    .in_place = {{0, 0}, {1, 0}, {0, 1}, {1, 1}},
    .random = true,
    .precision = {Precision::kLowStorage, "the sum is rounded once; as layer_norm from there"},
    .finds_largest = {0, 1},
});

const OpRegistration kAddRmsNorm({
    .name = "add_rms_norm",
    .inputs = {{"a"}, {"b"}, {"weight"}, {"rng", true}},
    .outputs = {{"sum"}, {"y"}, {"rstd", true}, {"largest_sum", true}, {"largest_y", true}},
    .infer = [](const OpCall& call) { return InferSumAndNorm(call, /*mean=*/false); },
    .gradient =
        [](GradientContext& ctx) { SumAndNormGradient(ctx, "rms_norm_backward", /*mean=*/false); },
    .cost = FlopsPerElement(5),
    .in_place = {{0, 0}, {1, 0}, {0, 1}, {1, 1}},
    .random = true,
    .precision = {Precision::kLowStorage, "the sum is rounded once; as rms_norm from there"},
    .finds_largest = {0, 1},
});

}  // namespace
}  // namespace plimsoll::ops
