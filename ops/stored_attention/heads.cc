// Packed queries, keys and values [B,T,…] to and from tensors with a matrix [T,hd] for each head,
// as batched matrix products need them. Elements move; nothing is computed. B batch, T sequence, H
// query heads, G key-value heads (H a multiple of G), hd values of a head.
//
//   split_heads          (qkv[B,T,(H+2G)·hd])  → q[B,G,(H/G)·T,hd], k[B,G,T,hd], v[B,G,T,hd]
//   split_heads_backward (dq, dk, dv)          → dqkv
//   merge_heads          (x[B,G,(H/G)·T,hd])   → y[B,T,H·hd]
//   merge_heads_backward (dy)                  → dx
//   attributes: heads (H), kv_heads (G)
//
// The query heads that share a key-value head are below one another, T rows each: one product with
// its keys makes the scores of all of them. One floating dtype.
#include "graph/gradient.h"
#include "ops/definition.h"
#include "ops/elementwise/arithmetic.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::Precision;
using graph::Shape;
using graph::TensorType;
using graph::Value;

struct HeadNumbers {
  int64_t heads, kv_heads;
  int64_t packed() const { return heads + 2 * kv_heads; }  // with keys and values
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

// Of keys or values next to these queries, with `sequence` tokens.
TensorType KeysOf(const TensorType& queries, const HeadNumbers& n, int64_t sequence) {
  const Shape& shape = queries.shape;
  return {queries.dtype, Shape{shape.dim(0), n.kv_heads, sequence, shape.dim(3)}};
}

std::vector<TensorType> InferSplit(const OpCall& call) {
  const HeadNumbers n = HeadNumbersOf(call);
  const TensorType q = QueriesOfPacked(call, n, n.packed());
  const TensorType k = KeysOf(q, n, call.input(0).shape.dim(1));
  return {q, k, k};
}

std::vector<TensorType> InferSplitBackward(const OpCall& call) {
  const HeadNumbers n = HeadNumbersOf(call);
  const TensorType packed = PackedOfQueries(call, n, n.packed());
  const TensorType k = KeysOf(call.input(0), n, packed.shape.dim(1));
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

// The input's, by the op `backward`, of the gradients of all outputs.
auto MovedBack(const char* backward, size_t outputs) {
  return [=](GradientContext& ctx) {
    if (!ctx.wants(0)) return;
    graph::Builder& g = ctx.builder();
    std::vector<Value> parts;
    for (size_t i = 0; i < outputs; ++i) {
      const Value part = ctx.output_gradient(i);
      parts.push_back(part != graph::kNoTensor ? part : Constant(g, g.type(ctx.output(i)), 0));
    }
    ctx.SetGradient(0, g.Emit1(backward, parts, ctx.attributes()));
  };
}

constexpr graph::PrecisionRule kMoves = {Precision::kLowStorage, "moves heads, rounds nothing"};

const graph::OpRegistration kSplitHeads({
    .name = "split_heads",
    .inputs = {{"qkv"}},
    .outputs = {{"q"}, {"k"}, {"v"}},
    .infer = &InferSplit,
    .gradient = MovedBack("split_heads_backward", 3),
    .cost = {},
    .precision = kMoves,
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
    .gradient = MovedBack("merge_heads_backward", 1),
    .cost = {},
    .precision = kMoves,
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
