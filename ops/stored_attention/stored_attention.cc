#include "ops/stored_attention/stored_attention.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "graph/builder.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/linear/matmul.h"

namespace plimsoll::ops {
namespace {

using graph::Builder;
using graph::Node;
using graph::Value;

// Whether the node is attention without positions and without a window, which masked_softmax does
// not support.
bool IsAttention(const Node& node) {
  constexpr size_t kPositions = 3;
  return node.op->name == "attention" && AttentionWindow(node.attributes) == 0 &&
         (node.inputs.size() <= kPositions || node.inputs[kPositions] == graph::kNoTensor);
}

void EmitStored(Builder& g, const Node& attention) {
  const graph::Attributes& attributes = attention.attributes;
  const graph::Attributes heads = {{"heads", attributes.GetInt("heads")},
                                   {"kv_heads", attributes.GetInt("kv_heads")}};
  const double drop = attributes.GetReal("dropout");
  const std::vector<Value> split = g.Emit("split_heads", {attention.inputs[0]}, heads, "heads");
  double scale = AttentionScale(attributes, g.shape(split[0]).dim(3));
  std::vector<Value> scores = {Matmul(g, split[0], split[1], false, true, "scores")};
  if (const double cap = AttentionSoftcap(attributes); cap > 0) {
    scores[0] = Softcap(g, Scale(g, scores[0], scale, "scores.scaled"), cap, "scores.capped");
    scale = 1;
  }
  const bool padded = attention.inputs.size() > 2 && attention.inputs[2] != graph::kNoTensor;
  if (padded) scores.push_back(attention.inputs[2]);
  Value p = g.Emit1("masked_softmax", scores,
                    {{"causal", attributes.GetBool("causal")}, {"scale", scale}}, "probabilities");
  if (drop > 0) {
    p = g.Emit1("dropout", {p, attention.inputs[1]},
                {{"p", drop}, {"key", attributes.GetInt("key")}, {"scores", true}},
                "probabilities.dropped");
  }
  const Value mixed = Matmul(g, p, split[2], false, false, "mixed");
  g.EmitInto({attention.outputs[0]}, "merge_heads", {mixed}, heads);
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
  return {changed > 0, Counted(changed, "attention") + " with stored scores"};
}

bool HasAttention(const graph::Program& program) {
  return std::ranges::any_of(program.nodes(), IsAttention);
}

}  // namespace plimsoll::ops
