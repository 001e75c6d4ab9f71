#include "inference/kv_cache.h"

#include <fmt/format.h>

#include <utility>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "graph/builder.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_cached.h"

namespace plimsoll::inference {
namespace {

using graph::Builder;
using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::Role;
using graph::TensorId;
using graph::TensorType;

// An index of -1 means that no input is required.
bool HasInput(const Node& node, int index) {
  const auto i = static_cast<size_t>(index);
  return index < 0 || (i < node.inputs.size() && node.inputs[i] != kNoTensor);
}

void SetInput(Node& node, size_t index, TensorId value) {
  node.inputs.resize(std::max(node.inputs.size(), index + 1), kNoTensor);
  node.inputs[index] = value;
}

// Adds a carried tensor, which keeps its values between runs. Two attentions of one scope get
// separate caches.
TensorId Carried(Builder& builder, const std::string& scope, const char* name,
                 const TensorType& type) {
  const std::string stem = scope.empty() ? name : scope + "." + name;
  return builder.Persistent(builder.program().FreshName(stem), Role::kState, type);
}

// Makes the node read keys and values from caches, and returns the size of these caches in bytes.
int64_t ReadFromCaches(Builder& builder, Node& node, TensorId position, int64_t capacity) {
  if (!node.attributes.GetBool("causal") || node.attributes.GetReal("dropout") > 0) {
    throw InternalError("kv_cache: " + node.op->name + " in '" + node.scope +
                        "' is not causal or drops; only causal attention without dropout can be "
                        "cached");
  }
  const size_t positions = 3;
  if (HasInput(node, static_cast<int>(positions))) {
    throw InternalError("kv_cache: " + node.op->name + " in '" + node.scope +
                        "' keeps documents apart; a text that is continued is one document");
  }
  const int64_t heads = node.attributes.GetInt("heads");
  const int64_t kv_heads = node.attributes.GetInt("kv_heads");
  const TensorType type = ops::CacheType(builder.type(node.inputs[0]), heads, kv_heads, capacity);
  const TensorId keys = Carried(builder, node.scope, "keys", type);
  const TensorId values = Carried(builder, node.scope, "values", type);
  node.op = &graph::OpRegistry::Get().Require(node.op->continuation.cached_op);
  const int64_t window = ops::AttentionWindow(node.attributes);
  graph::Attributes cached = {{"heads", heads}, {"kv_heads", kv_heads}};
  if (window > 0) cached.Set("window", window);
  for (const char* name : {"scale", "softcap"}) {
    if (node.attributes.Has(name)) cached.Set(name, node.attributes.GetReal(name));
  }
  node.attributes = std::move(cached);
  node.inputs = {node.inputs[0], keys, values, position};
  node.outputs = {node.outputs[0], keys, values};
  node.made_by = "kv_cache";
  return 2 * type.bytes();
}

}  // namespace

graph::PassResult KvCache::Run(Program& program) {
  Builder builder(program);
  const TensorId position =
      builder.Persistent("position", Role::kInput, {graph::DType::kInt32, {1}});
  int caches = 0;
  int64_t bytes = 0;
  for (Node& node : program.mutable_nodes()) {
    const graph::Continuation& continuation = node.op->continuation;
    if (!continuation.cached_op.empty()) {
      bytes += ReadFromCaches(builder, node, position, capacity_);
      ++caches;
    } else if (continuation.position >= 0 && HasInput(node, continuation.position_table)) {
      SetInput(node, static_cast<size_t>(continuation.position), position);
    }
  }
  program.DropUnusedTensors();
  return {true, fmt::format("{} of {}, {}", Counted(caches, "cache"), Counted(capacity_, "token"),
                            FormatBytes(bytes))};
}

}  // namespace plimsoll::inference
