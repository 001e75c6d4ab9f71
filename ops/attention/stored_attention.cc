#include "ops/attention/stored_attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "ops/attention/heads.h"
#include "ops/attention/masked_softmax.h"
#include "ops/linear/matmul.h"

namespace plimsoll::ops {
namespace {

using graph::Builder;
using graph::kNoTensor;
using graph::Node;
using graph::Value;

bool IsAttention(const Node& node) { return node.op->name == "attention"; }

Value InputOr(const Node& node, size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kNoTensor;
}

void EmitStored(Builder& g, const Node& attention) {
  const graph::Attributes& attributes = attention.attributes;
  const int64_t heads = attributes.GetInt("heads"), kv_heads = attributes.GetInt("kv_heads");
  const double drop = attributes.GetReal("dropout");
  const SeparateHeads split = SplitHeads(g, attention.inputs[0], heads, kv_heads, "heads");
  const double scale = 1 / std::sqrt(static_cast<double>(g.shape(split.q).dim(3)));
  const Value scores = Matmul(g, split.q, split.k, false, true, "scores");
  Value p = MaskedSoftmax(g, scores, InputOr(attention, 2), attributes.GetBool("causal"), scale,
                          "probabilities");
  if (drop > 0) {
    p = g.Emit1("dropout", {p, attention.inputs[1]},
                {{"p", drop}, {"key", attributes.GetInt("key")}, {"scores", true}},
                "probabilities.dropped");
  }
  const Value mixed = Matmul(g, p, split.v, false, false, "mixed");
  g.EmitInto({attention.outputs[0]}, "merge_heads", {mixed},
             {{"heads", heads}, {"kv_heads", kv_heads}});
}

}  // namespace

graph::PassResult StoredAttention::Run(graph::Program& program) {
  Builder g(program);
  g.set_made_by("stored_attention");
  int changed = 0;
  for (Node& node : std::exchange(program.mutable_nodes(), {})) {
    if (!IsAttention(node)) {
      program.mutable_nodes().push_back(std::move(node));
      continue;
    }
    g.set_scope(node.scope);
    g.set_phase(node.phase);
    EmitStored(g, node);
    ++changed;
  }
  program.DropUnusedTensors();
  return {changed > 0, std::to_string(changed) + " attentions with stored scores"};
}

bool HasAttention(const graph::Program& program) {
  return std::ranges::any_of(program.nodes(), IsAttention);
}

}  // namespace plimsoll::ops
