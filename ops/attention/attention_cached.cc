#include "ops/attention/attention_cached.h"

#include <algorithm>

#include "graph/op.h"
#include "ops/attention/attention.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"

namespace plimsoll::ops {

using graph::Check;
using graph::Cost;
using graph::OpCall;
using graph::Shape;
using graph::TensorType;

TensorType CacheType(const TensorType& qkv, int64_t heads, int64_t kv_heads, int64_t capacity) {
  const int64_t head = qkv.shape.dim(2) / (heads + 2 * kv_heads);
  return {qkv.dtype, {qkv.shape.dim(0), kv_heads, capacity, head}};
}

namespace {

std::vector<TensorType> Infer(const OpCall& call) {
  const TensorType& qkv = call.input(0);
  const TensorType& keys = call.input(1);
  const int64_t heads = call.attributes.GetInt("heads");
  const int64_t kv_heads = call.attributes.GetInt("kv_heads");
  Check(graph::IsFloat(qkv.dtype) && qkv.shape.rank() == 3, call,
        "needs floats qkv[R,W,(H+2G)*hd]");
  Check(heads >= 1 && kv_heads >= 1 && heads % kv_heads == 0, call,
        "needs heads that are a multiple of kv_heads");
  Check(qkv.shape.dim(2) % (heads + 2 * kv_heads) == 0, call, "heads don't divide the width");
  Check(keys.shape.rank() == 4 && keys == CacheType(qkv, heads, kv_heads, keys.shape.dim(2)), call,
        "keys are not [R,G,C,hd]");
  Check(call.input(2) == keys, call, "values are not of the type of keys");
  Check(keys.shape.dim(2) >= qkv.shape.dim(1), call, "the cache is shorter than the new tokens");
  Check(call.input(3) == TensorType{graph::DType::kInt32, {1}}, call, "'position' must be i32[1]");
  Check(AttentionWindow(call.attributes) >= 0, call, "needs a window of 0 (none) or more");
  CheckAttentionScores(call);
  const int64_t head = keys.shape.dim(3);
  return {{qkv.dtype, qkv.shape.WithLast(heads * head)}, keys, keys};
}

// The cost for the last tokens that fit in the cache; earlier tokens see fewer keys. Each score
// takes two products of hd multiply-adds and an exponential of 10 FLOPs; a soft cap adds 20 FLOPs.
Cost CachedCost(const OpCall& call) {
  const Shape& keys = call.input(1).shape;
  const double width = static_cast<double>(call.input(0).shape.dim(1));
  const double head = static_cast<double>(keys.dim(3));
  const int64_t window = AttentionWindow(call.attributes);
  const double last = static_cast<double>(keys.dim(2)) - (width - 1) / 2;
  const double seen = window == 0 ? last : std::min(last, static_cast<double>(window));
  const double scores = static_cast<double>(call.input(0).shape.dim(0)) *
                        static_cast<double>(call.attributes.GetInt("heads")) * width * seen;
  const double appended = static_cast<double>(call.input(0).bytes());
  const double out = call.has_output(0) ? static_cast<double>(call.output(0).bytes()) : appended;
  const double flops = AttentionSoftcap(call.attributes) > 0 ? 30 : 10;
  return {scores * (4 * head + flops),
          2 * static_cast<double>(call.input(1).bytes()) + 2 * appended + out};
}

const graph::OpRegistration kAttentionCached({
    .name = "attention_cached",
    .inputs = {{"qkv"}, {"keys"}, {"values"}, {"position"}},
    .outputs = {{"out"}, {"keys"}, {"values"}},
    .infer = Infer,
    .gradient = {},
    .cost = CachedCost,
    .in_place = {{1, 1}, {2, 2}},
});

// The bytes of each chunk's weighted values, maximum and sum, for each head of each token.
int64_t CachedWorkspace(const OpCall& call) {
  const Shape& keys = call.input(1).shape;
  const int64_t window = call.input(0).shape.dim(1);
  const int64_t chunks = (keys.dim(2) + kCachedAttentionChunk - 1) / kCachedAttentionChunk;
  if (window > kCachedAttentionFewTokens || chunks == 1) return 0;
  return call.input(0).shape.dim(0) * window * call.attributes.GetInt("heads") * chunks *
         (keys.dim(3) + 2) * 4;
}

const CudaWorkspaceRegistration kCachedWorkspace("attention_cached", &CachedWorkspace);

}  // namespace
}  // namespace plimsoll::ops
