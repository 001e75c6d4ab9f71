// Moves packed queries, keys and values [B,T,…] to and from tensors with a matrix [T,hd] for each
// head, as batched matrix products need them. Nothing is computed. B batch, T sequence, H query
// heads, G key-value heads (H a multiple of G), hd values of a head.
//
//   split_heads          (qkv[B,T,(H+2G)·hd])  → q[B,G,(H/G)·T,hd], k[B,G,T,hd], v[B,G,T,hd]
//   split_heads_backward (dq, dk, dv)          → dqkv
//   merge_heads          (x[B,G,(H/G)·T,hd])   → y[B,T,H·hd]
//   merge_heads_backward (dy)                  → dx
//   attributes: heads (H), kv_heads (G)
//
// The query heads that share a key-value head are one below the other, T rows each: one product
// with its keys makes the scores of all of them. All tensors have one floating dtype.
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
  int64_t blocks;  // heads in a packed tensor: of queries, or of queries, keys and values
};

HeadNumbers HeadNumbersOf(const OpCall& call, bool keys) {
  HeadNumbers n{call.attributes.GetInt("heads"), call.attributes.GetInt("kv_heads"), 0};
  Check(n.heads >= 1 && n.kv_heads >= 1 && n.heads % n.kv_heads == 0, call,
        "needs heads that are a multiple of kv_heads");
  n.blocks = n.heads + (keys ? 2 * n.kv_heads : 0);
  return n;
}

// The type of keys or values that belong to these queries, with `sequence` tokens.
TensorType KeysOf(const TensorType& queries, const HeadNumbers& n, int64_t sequence) {
  const Shape& shape = queries.shape;
  return {queries.dtype, Shape{shape.dim(0), n.kv_heads, sequence, shape.dim(3)}};
}

// The types of unpacked x[B,T,blocks·hd]: queries of all heads and, with `keys`, keys and values.
std::vector<TensorType> Separate(const OpCall& call, bool keys) {
  const HeadNumbers n = HeadNumbersOf(call, keys);
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 3, call, "needs floats [B,T,heads*hd]");
  Check(x.shape.dim(2) % n.blocks == 0, call, "heads don't divide the width");
  const int64_t sequence = x.shape.dim(1);
  const TensorType q{x.dtype, Shape{x.shape.dim(0), n.kv_heads, n.heads / n.kv_heads * sequence,
                                    x.shape.dim(2) / n.blocks}};
  if (!keys) return {q};
  const TensorType k = KeysOf(q, n, sequence);
  return {q, k, k};
}

// The type of the packed tensor for x[B,G,(H/G)·T,hd] and, with `keys`, k and v.
std::vector<TensorType> Packed(const OpCall& call, bool keys) {
  const HeadNumbers n = HeadNumbersOf(call, keys);
  const TensorType& x = call.input(0);
  const int64_t group = n.heads / n.kv_heads;
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 4 && x.shape.dim(1) == n.kv_heads &&
            x.shape.dim(2) % group == 0,
        call, "needs floats [B,kv_heads,heads/kv_heads*T,hd]");
  const int64_t sequence = x.shape.dim(2) / group;
  if (keys) {
    const TensorType k = KeysOf(x, n, sequence);
    Check(call.input(1) == k && call.input(2) == k, call, "dk and dv are not [B,kv_heads,T,hd]");
  }
  return {{x.dtype, Shape{x.shape.dim(0), sequence, n.blocks * x.shape.dim(3)}}};
}

using Arguments = std::vector<graph::Argument>;

// Defines the op `name` and NAME_backward, which moves the gradients of its outputs back.
graph::OpDef Moves(const std::string& name, const Arguments& inputs, const Arguments& outputs,
                   bool keys) {
  const auto gradient = [name, parts = outputs.size()](GradientContext& ctx) {
    if (!ctx.wants(0)) return;
    graph::Builder& g = ctx.builder();
    std::vector<Value> gradients;
    for (size_t i = 0; i < parts; ++i) {
      const Value given = ctx.output_gradient(i);
      gradients.push_back(given != graph::kNoTensor ? given
                                                    : Constant(g, g.type(ctx.output(i)), 0));
    }
    ctx.SetGradient(0, g.Emit1(name + "_backward", gradients, ctx.attributes()));
  };
  return {.name = name,
          .inputs = inputs,
          .outputs = outputs,
          .infer =
              [=](const OpCall& call) { return keys ? Separate(call, true) : Packed(call, false); },
          .gradient = gradient,
          .cost = {},
          .precision = {Precision::kLowStorage, "moves heads, rounds nothing"}};
}

graph::OpDef MovesBack(const std::string& name, const Arguments& inputs, const Arguments& outputs,
                       bool keys) {
  return {.name = name + "_backward",
          .inputs = inputs,
          .outputs = outputs,
          .infer =
              [=](const OpCall& call) { return keys ? Packed(call, true) : Separate(call, false); },
          .gradient = {},
          .cost = {}};
}

const graph::OpRegistration kSplit(Moves("split_heads", {{"qkv"}}, {{"q"}, {"k"}, {"v"}}, true));
const graph::OpRegistration kSplitBackward(MovesBack("split_heads", {{"dq"}, {"dk"}, {"dv"}},
                                                     {{"dqkv"}}, true));
const graph::OpRegistration kMerge(Moves("merge_heads", {{"x"}}, {{"y"}}, false));
const graph::OpRegistration kMergeBackward(MovesBack("merge_heads", {{"dy"}}, {{"dx"}}, false));

}  // namespace
}  // namespace plimsoll::ops
