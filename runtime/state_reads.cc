#include "runtime/state_reads.h"

#include <algorithm>

#include "ops/collectives/collective.h"

namespace plimsoll::runtime {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

std::vector<TensorId> StateChangedBy(const Program& program, const Node& node) {
  std::vector<TensorId> changed;
  if (node.op->view || ops::IsCollective(*node.op)) return changed;
  for (const TensorId id : node.outputs) {
    if (id == kNoTensor) continue;
    const TensorId root = program.Root(id);
    if (graph::OutlivesSteps(program.tensor(root))) changed.push_back(root);
  }
  return changed;
}

StateReads::StateReads(const Program& concurrent) {
  const std::vector<Node>& nodes = concurrent.nodes();
  const auto is_done = [&](size_t n) {
    return nodes[n].op->transfer == graph::Transfer::kCopyDone;
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    const int mark = static_cast<int>(marks_.size());  // the next mark to pass
    for (const TensorId id : nodes[n].inputs) {
      if (id == kNoTensor) continue;
      const graph::Tensor& tensor = concurrent.tensor(concurrent.Root(id));
      if (graph::OutlivesSteps(tensor)) mark_of_[tensor.name] = mark;
    }
    const bool last = n + 1 == nodes.size();
    if (last || (is_done(n) && !is_done(n + 1))) marks_.push_back(static_cast<int>(n));
  }
}

int StateReads::MarkBefore(const Program& program, const Node& node) const {
  int mark = kNoMark;
  for (const TensorId id : StateChangedBy(program, node)) {
    const auto found = mark_of_.find(program.tensor(id).name);
    if (found != mark_of_.end()) mark = std::max(mark, found->second);
  }
  return mark;
}

}  // namespace plimsoll::runtime
