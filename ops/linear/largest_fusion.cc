#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ops/fusions.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

// The tensor of which `id` is a reshaped view, or `id` itself.
TensorId Whole(const Program& program, TensorId id) {
  const TensorId root = program.Root(id);
  return program.tensor(root).bytes() == program.tensor(id).bytes() ? root : id;
}

// Lets the node find the largest magnitude of its output `of`. Returns the output for that
// magnitude, which is absent if it was not requested before; nullptr if the op cannot find it.
TensorId* LargestOf(Node& node, size_t of) {
  const std::vector<int>& finds = node.op->finds_largest;
  const auto found = std::ranges::find(finds, static_cast<int>(of));
  if (found == finds.end()) return nullptr;
  node.attributes.Set("largest", true);
  node.outputs.resize(node.op->outputs.size(), kNoTensor);
  return &*(node.outputs.end() - (finds.end() - found));
}

// The new index of a node that stays, and one of the node's outputs.
struct Maker {
  size_t node, output;
};

}  // namespace

int FuseLargest(Program& program) {
  std::vector<Node>& nodes = program.mutable_nodes();
  std::map<TensorId, Maker> makers;
  // Maps a largest magnitude to an equal magnitude that was found before.
  std::map<TensorId, TensorId> instead;
  size_t stays = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    Node& node = nodes[n];
    for (TensorId& id : node.inputs) {
      if (const auto found = instead.find(id); found != instead.end()) id = found->second;
    }
    if (node.op->name == "largest_magnitude") {
      const auto made = makers.find(Whole(program, node.inputs[0]));
      TensorId* const largest =
          made == makers.end() ? nullptr : LargestOf(nodes[made->second.node], made->second.output);
      if (largest != nullptr) {
        if (*largest == kNoTensor) *largest = node.outputs[0];
        if (*largest != node.outputs[0]) instead[node.outputs[0]] = *largest;
        continue;
      }
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.op->view) makers[node.outputs[i]] = {stays, i};
    }
    if (stays != n) nodes[stays] = std::move(node);
    ++stays;
  }
  const size_t fused = nodes.size() - stays;
  nodes.resize(stays);
  return static_cast<int>(fused);
}

}  // namespace plimsoll::ops
