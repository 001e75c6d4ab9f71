#include "ops/attention/heads.h"

#include "graph/gradient.h"
#include "ops/definition.h"
#include "ops/elementwise/arithmetic.h"

namespace plimsoll::ops {

using graph::Attributes;
using graph::Check;
using graph::GradientContext;
using graph::kNoTensor;
using graph::OpCall;
using graph::Precision;
using graph::Shape;
using graph::TensorType;
using graph::Value;

SeparateHeads SplitHeads(graph::Builder& g, Value qkv, int64_t heads, int64_t kv_heads,
                         std::string_view name) {
  const std::vector<Value> parts =
      g.Emit("split_heads", {qkv}, Attributes{{"heads", heads}, {"kv_heads", kv_heads}}, name);
  return {parts[0], parts[1], parts[2]};
}

Value MergeHeads(graph::Builder& g, Value x, int64_t heads, int64_t kv_heads,
                 std::string_view name) {
  return g.Emit1("merge_heads", {x}, Attributes{{"heads", heads}, {"kv_heads", kv_heads}}, name);
}

namespace {

struct HeadNumbers {
  int64_t heads, kv_heads;
};

HeadNumbers HeadNumbersOf(const OpCall& call) {
  const HeadNumbers n{call.attributes.GetInt("heads"), call.attributes.GetInt("kv_heads")};
  Check(n.heads >= 1 && n.kv_heads >= 1 && n.heads % n.kv_heads == 0, call,
        "needs heads that are a multiple of kv_heads");
  return n;
}

// Checks x[B,T,blocks·hd] and returns the type of queries of all heads.
TensorType QueriesOfPacked(const OpCall& call, const HeadNumbers& n, int64_t blocks) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 3, call, "needs floats [B,T,heads*hd]");
  Check(x.shape.dim(2) % blocks == 0, call, "heads don't divide the width");
  return {x.dtype, Shape{x.shape.dim(0), n.kv_heads, n.heads / n.kv_heads * x.shape.dim(1),
                         x.shape.dim(2) / blocks}};
}

// Checks x[B,G,(H/G)·T,hd] and returns the type of `blocks` heads, packed.
TensorType PackedOfQueries(const OpCall& call, const HeadNumbers& n, int64_t blocks) {
  const TensorType& x = call.input(0);
  const int64_t group = n.heads / n.kv_heads;
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 4 && x.shape.dim(1) == n.kv_heads &&
            x.shape.dim(2) % group == 0,
        call, "needs floats [B,kv_heads,heads/kv_heads*T,hd]");
  return {x.dtype, Shape{x.shape.dim(0), x.shape.dim(2) / group, blocks * x.shape.dim(3)}};
}

std::vector<TensorType> InferSplit(const OpCall& call) {
  const HeadNumbers n = HeadNumbersOf(call);
  const TensorType q = QueriesOfPacked(call, n, n.heads + 2 * n.kv_heads);
  const TensorType k{q.dtype,
                     Shape{q.shape.dim(0), n.kv_heads, call.input(0).shape.dim(1), q.shape.dim(3)}};
  return {q, k, k};
}

std::vector<TensorType> InferSplitBackward(const OpCall& call) {
  const HeadNumbers n = HeadNumbersOf(call);
  const TensorType packed = PackedOfQueries(call, n, n.heads + 2 * n.kv_heads);
  const TensorType k{packed.dtype, Shape{packed.shape.dim(0), n.kv_heads, packed.shape.dim(1),
                                         call.input(0).shape.dim(3)}};
  Check(call.input(1) == k && call.input(2) == k, call, "dk and dv are not [B,kv_heads,T,hd]");
  return {packed};
}

std::vector<TensorType> InferMerge(const OpCall& call) {
  const HeadNumbers n = HeadNumbersOf(call);
  return {PackedOfQueries(call, n, n.heads)};
}

std::vector<TensorType> InferMergeBackward(const OpCall& call) {
  const HeadNumbers n = HeadNumbersOf(call);
  return {QueriesOfPacked(call, n, n.heads)};
}

void SplitGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  std::vector<Value> parts;
  for (size_t i = 0; i < 3; ++i) {
    Value part = ctx.output_gradient(i);
    if (part == kNoTensor) part = Constant(g, g.type(ctx.output(i)), 0);
    parts.push_back(part);
  }
  ctx.SetGradient(0, g.Emit1("split_heads_backward", parts, ctx.attributes()));
}

void MergeGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(
      0, ctx.builder().Emit1("merge_heads_backward", {ctx.output_gradient(0)}, ctx.attributes()));
}

constexpr std::string_view kMoves = "moves heads, rounds nothing";

const graph::OpRegistration kSplitHeads({
    .name = "split_heads",
    .inputs = {{"qkv"}},
    .outputs = {{"q"}, {"k"}, {"v"}},
    .infer = &InferSplit,
    .gradient = &SplitGradient,
    .cost = {},
    .precision = {Precision::kLowStorage, kMoves},
});

const graph::OpRegistration kSplitHeadsBackward({
    .name = "split_heads_backward",
    .inputs = {{"dq"}, {"dk"}, {"dv"}},
    .outputs = {{"dqkv"}},
    .infer = &InferSplitBackward,
    .gradient = {},
    .cost = {},
});

const graph::OpRegistration kMergeHeads({
    .name = "merge_heads",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferMerge,
    .gradient = &MergeGradient,
    .cost = {},
    .precision = {Precision::kLowStorage, kMoves},
});

const graph::OpRegistration kMergeHeadsBackward({
    .name = "merge_heads_backward",
    .inputs = {{"dy"}},
    .outputs = {{"dx"}},
    .infer = &InferMergeBackward,
    .gradient = {},
    .cost = {},
});

}  // namespace
}  // namespace plimsoll::ops
