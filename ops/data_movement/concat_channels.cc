#include "ops/data_movement/concat_channels.h"

#include <vector>

#include "graph/gradient.h"
#include "ops/definition.h"

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

// Kernels count the packs of a row in 32 bits.
constexpr int64_t kMostChannels = (int64_t{1} << 31) - 1;

std::vector<TensorType> InferConcatChannels(const OpCall& call) {
  const TensorType &a = call.input(0), &b = call.input(1);
  Check(graph::IsFloat(a.dtype) && a.dtype == b.dtype, call, "a and b need one float dtype");
  Check(a.shape.rank() >= 1 && b.shape.rank() >= 1 && a.shape.DropLast() == b.shape.DropLast(),
        call, "a and b must be alike but for their channels");
  Check(a.shape.dim(-1) >= 1 && b.shape.dim(-1) >= 1, call, "a and b must have channels");
  Check(a.shape.dim(-1) <= kMostChannels - b.shape.dim(-1), call,
        "a and b must have fewer than 2^31 channels together");
  return {{a.dtype, a.shape.WithLast(a.shape.dim(-1) + b.shape.dim(-1))}};
}

void ConcatChannelsGradient(GradientContext& ctx) {
  const bool a = ctx.wants(0), b = ctx.wants(1);
  if (!a && !b) return;
  graph::Builder& g = ctx.builder();
  const Value acc_a = a ? ctx.TakePartial(0) : kNoTensor;
  const Value acc_b = b ? ctx.TakePartial(1) : kNoTensor;
  const std::vector<Value> gradients =
      g.Emit("concat_channels_backward", {ctx.output_gradient(0), acc_a, acc_b},
             {{"first_channels", g.shape(ctx.input(0)).dim(-1)}}, "", {a, b});
  if (a) ctx.SetGradient(0, gradients[0]);
  if (b) ctx.SetGradient(1, gradients[1]);
}

std::vector<TensorType> InferConcatChannelsBackward(const OpCall& call) {
  const TensorType& dy = call.input(0);
  const int64_t first = call.attributes.GetInt("first_channels");
  Check(graph::IsFloat(dy.dtype) && dy.shape.rank() >= 1, call, "dy must be floating, [...,C]");
  Check(first >= 1 && first < dy.shape.dim(-1) && dy.shape.dim(-1) <= kMostChannels, call,
        "first_channels must be 1 or more, and fewer than dy has, which are fewer than 2^31");
  const TensorType da{dy.dtype, dy.shape.WithLast(first)};
  const TensorType db{dy.dtype, dy.shape.WithLast(dy.shape.dim(-1) - first)};
  CheckAbsentOr(call, 1, da);
  CheckAbsentOr(call, 2, db);
  return {da, db};
}

// The cost counts the requested part of dy, the sums to which it is added, and the results.
graph::Cost ConcatChannelsBackwardCost(const OpCall& call) {
  graph::Cost cost;
  for (size_t i : {0, 1}) {
    if (!call.has_output(i)) continue;
    const TensorType& out = call.output(i);
    const bool adds = call.has_input(i + 1);
    cost.flops += adds ? static_cast<double>(out.shape.elements()) : 0;
    cost.bytes += (adds ? 3.0 : 2.0) * static_cast<double>(out.bytes());
  }
  return cost;
}

const OpRegistration kConcatChannels({
    .name = "concat_channels",
    .inputs = {{"a"}, {"b"}},
    .outputs = {{"y"}},
    .infer = &InferConcatChannels,
    .gradient = &ConcatChannelsGradient,
    .cost = {},
    .precision = {Precision::kLowStorage, "moves elements"},
    .cheap_to_recompute = true,
});

// da is the first channels of dy, db the others; each is added to its acc.
const OpRegistration kConcatChannelsBackward({
    .name = "concat_channels_backward",
    .inputs = {{"dy"}, {"acc_a", true}, {"acc_b", true}},
    .outputs = {{"da", true}, {"db", true}},
    .infer = &InferConcatChannelsBackward,
    .gradient = {},
    .cost = &ConcatChannelsBackwardCost,
    .in_place = {{1, 0}, {2, 1}},
});

}  // namespace

Value ConcatChannels(graph::Builder& g, Value a, Value b, std::string_view name) {
  return g.Emit1("concat_channels", {a, b}, {}, name);
}

}  // namespace plimsoll::ops
