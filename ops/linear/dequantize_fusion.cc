#include <map>
#include <set>
#include <vector>

#include "ops/fusions.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

// Whether the node is a dequantize whose codes never change, because they are written once.
bool Decodes(const Program& program, const Node& node) {
  return node.op->name == "dequantize" &&
         program.tensor(node.inputs[0]).type.dtype == graph::DType::kFloat8E4M3 &&
         !program.tensor(program.Root(node.inputs[0])).persistent &&
         !program.tensor(program.Root(node.inputs[1])).persistent &&
         !program.tensor(node.outputs[0]).persistent;
}

// Removes dequantize nodes whose result nothing reads any more.
void DropUnread(Program& program) {
  std::set<TensorId> read;
  for (const Node& node : program.nodes()) {
    for (TensorId id : node.inputs) {
      if (id != kNoTensor) read.insert(program.Root(id));
    }
  }
  std::erase_if(program.mutable_nodes(), [&](const Node& node) {
    return Decodes(program, node) && !read.contains(program.Root(node.outputs[0]));
  });
}

}  // namespace

int FuseDequantized(Program& program) {
  std::map<TensorId, Node> makers;
  for (const Node& node : program.nodes()) {
    if (Decodes(program, node)) makers[node.outputs[0]] = node;
  }
  int fused = 0;
  for (Node& node : program.mutable_nodes()) {
    if (node.op->name != "quantize_activation") continue;
    const auto maker = makers.find(node.inputs[0]);
    if (maker == makers.end()) continue;
    node.inputs[0] = maker->second.inputs[0];
    node.inputs.push_back(maker->second.inputs[1]);
    node.attributes.Set("a_dtype", maker->second.attributes.GetWord("dtype"));
    ++fused;
  }
  if (fused > 0) DropUnread(program);
  return fused;
}

}  // namespace plimsoll::ops
