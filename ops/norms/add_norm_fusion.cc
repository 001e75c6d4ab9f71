#include <string>
#include <utility>
#include <vector>

#include "ops/fusions.h"
#include "ops/rewrite_nodes.h"

namespace plimsoll::ops {
namespace {

using graph::Node;
using graph::Program;
using graph::TensorId;

// Whether `norm` is the norm of the result of `add`, and both may become one node.
bool Match(const Program& program, const Node& add, const Node& norm) {
  if (add.op->name != "add") return false;
  if (norm.op->name != "layer_norm" && norm.op->name != "rms_norm") return false;
  const TensorId sum = add.outputs[0];
  if (norm.inputs[0] != sum) return false;  // a view of it has another shape
  if (program.tensor(program.Root(sum)).persistent) return false;
  // The sum must not be the norm's weight as well.
  for (size_t i = 1; i < norm.inputs.size(); ++i) {
    if (norm.inputs[i] == sum) return false;
  }
  return add.phase == norm.phase;
}

Node Fused(const Node& add, const Node& norm) {
  Node node = norm;
  node.op = &graph::OpRegistry::Get().Require("add_" + norm.op->name);
  node.made_by = "fuse";
  node.inputs[0] = add.inputs[0];
  node.inputs.insert(node.inputs.begin() + 1, add.inputs[1]);
  node.outputs.insert(node.outputs.begin(), add.outputs[0]);
  return node;
}

}  // namespace

int FuseAddNorm(Program& program) {
  return RewriteNodes(program, [&] {
    std::vector<Node>& nodes = program.mutable_nodes();
    const size_t last = nodes.size() - 1;
    if (last == 0 || !Match(program, nodes[last - 1], nodes[last])) return false;
    MoveAfter(nodes, last - 1, {}, Fused(nodes[last - 1], nodes[last]));
    return true;
  });
}

}  // namespace plimsoll::ops
