#include "graph/simplify.h"

#include <algorithm>

#include "base/amounts.h"

namespace plimsoll::graph {

PassResult Simplify::Run(Program& program) {
  std::vector<bool> read(program.tensors().size(), false);
  auto mark = [&](TensorId id) {
    // Reading a view also reads its base.
    for (; id != kNoTensor && !read[id];
         id = program.tensor(id).alias ? program.tensor(id).alias->base : kNoTensor) {
      read[id] = true;
    }
  };
  for (const std::string& name : results_) mark(program.Require(name));
  for (size_t id = 0; id < read.size(); ++id) {
    if (program.tensors()[id].persistent) mark(static_cast<TensorId>(id));
  }

  // Goes backwards, because a node's inputs count as read only if the node stays.
  std::vector<Node>& nodes = program.mutable_nodes();
  std::vector<bool> stays(nodes.size(), false);
  int outputs_removed = 0;
  for (size_t i = nodes.size(); i-- > 0;) {
    Node& node = nodes[i];
    stays[i] = std::any_of(node.outputs.begin(), node.outputs.end(),
                           [&](TensorId id) { return id != kNoTensor && read[id]; });
    // If the start of a transfer writes a tensor that is read, the end of the transfer stays: only
    // then is the tensor complete.
    if (IsDone(node.op->transfer)) stays[i] = stays[i] || read[program.Root(node.inputs[0])];
    if (!stays[i]) continue;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      TensorId& id = node.outputs[k];
      if (id == kNoTensor || read[id] || !node.op->outputs[k].optional) continue;
      id = kNoTensor;
      ++outputs_removed;
    }
    for (TensorId id : node.inputs) mark(id);
  }

  std::vector<Node> kept;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (stays[i]) kept.push_back(std::move(nodes[i]));
  }
  const size_t nodes_removed = nodes.size() - kept.size();
  nodes = std::move(kept);
  program.DropUnusedTensors();
  return {nodes_removed > 0 || outputs_removed > 0, Counted(nodes_removed, "node") + " and " +
                                                        Counted(outputs_removed, "unread result") +
                                                        " removed"};
}

}  // namespace plimsoll::graph
