#include "ops/tokens/tokens.h"

#include "graph/gradient.h"
#include "ops/data_movement/views.h"
#include "ops/definition.h"
#include "ops/tokens/embedding.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::Precision;
using graph::Shape;
using graph::TensorType;
using graph::Value;

// Checks that [first, first + count) is a part of `tokens`.
void CheckPart(const OpCall& call, int64_t count, int64_t tokens) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 3, call, "x must be floating, [B,T,D]");
  const int64_t first = call.attributes.GetInt("first");
  Check(first >= 0 && count >= 0 && first <= tokens - count, call, "takes tokens that don't exist");
}

std::vector<TensorType> InferSlice(const OpCall& call) {
  const int64_t count = call.attributes.GetInt("count");
  CheckPart(call, count, call.input(0).shape.dim(1));
  const Shape& x = call.input(0).shape;
  return {{call.input(0).dtype, {x.dim(0), count, x.dim(2)}}};
}

std::vector<TensorType> InferPlace(const OpCall& call) {
  const int64_t tokens = call.attributes.GetInt("tokens");
  CheckPart(call, call.input(0).shape.dim(1), tokens);
  const Shape& x = call.input(0).shape;
  return {{call.input(0).dtype, {x.dim(0), tokens, x.dim(2)}}};
}

std::vector<TensorType> InferPrepend(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 3, call, "x must be floating, [B,T,D]");
  const int64_t tokens = x.shape.dim(1) + 1, width = x.shape.dim(2);
  Check(call.input(1) == TensorType{x.dtype, {width}}, call, "token must be [D]");
  Check(call.input(2) == TensorType{x.dtype, {tokens, width}}, call, "position must be [T+1,D]");
  return {{x.dtype, {x.shape.dim(0), tokens, width}}};
}

void SliceGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  ctx.SetGradient(0, PlaceTokens(g, ctx.output_gradient(0), ctx.attributes().GetInt("first"),
                                 g.shape(ctx.input(0)).dim(1)));
}

void PlaceGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  ctx.SetGradient(0, SliceTokens(g, ctx.output_gradient(0), ctx.attributes().GetInt("first"),
                                 g.shape(ctx.input(0)).dim(1)));
}

void PrependGradient(GradientContext& ctx) {
  graph::Builder& g = ctx.builder();
  const Value dy = ctx.output_gradient(0);
  const int64_t tokens = g.shape(dy).dim(1), width = g.shape(dy).dim(2);
  if (ctx.wants(0)) ctx.SetGradient(0, SliceTokens(g, dy, 1, tokens - 1));
  if (ctx.wants(1)) {
    ctx.SetGradient(1, View(g, PositionDw(g, SliceTokens(g, dy, 0, 1), 1), {width}));
  }
  if (ctx.wants(2)) ctx.SetGradient(2, PositionDw(g, dy, tokens, ctx.TakePartial(2)));
}

const graph::OpRegistration kSliceTokens({
    .name = "slice_tokens",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferSlice,
    .gradient = &SliceGradient,
    .cost =
        [](const OpCall& call) {
          return graph::Cost{0, 2.0 * static_cast<double>(call.output(0).bytes())};
        },
    .precision = {Precision::kLowStorage, "moves tokens, rounds nothing"},
});

const graph::OpRegistration kPlaceTokens({
    .name = "place_tokens",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferPlace,
    .gradient = &PlaceGradient,
    .cost = {},
    .precision = {Precision::kLowStorage, "moves tokens, rounds nothing"},
});

const graph::OpRegistration kPrependToken({
    .name = "prepend_token",
    .inputs = {{"x"}, {"token"}, {"position"}},
    .outputs = {{"y"}},
    .infer = &InferPrepend,
    .gradient = &PrependGradient,
    .cost = FlopsPerElement(1),
    .precision = {Precision::kLow, "moves patches; positions are added in float32"},
    .cheap_to_recompute = true,
});

}  // namespace

Value SliceTokens(graph::Builder& g, Value x, int64_t first, int64_t count, std::string_view name) {
  return g.Emit1("slice_tokens", {x}, {{"first", first}, {"count", count}}, name);
}

Value PlaceTokens(graph::Builder& g, Value x, int64_t first, int64_t tokens,
                  std::string_view name) {
  return g.Emit1("place_tokens", {x}, {{"first", first}, {"tokens", tokens}}, name);
}

Value PrependToken(graph::Builder& g, Value x, Value token, Value position, std::string_view name) {
  return g.Emit1("prepend_token", {x, token, position}, {}, name);
}

}  // namespace plimsoll::ops
