#include "graph/step_shape.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "graph/companions.h"

namespace plimsoll::graph {

size_t ForwardEnd(const Program& program) {
  const std::vector<Node>& nodes = program.nodes();
  const auto after =
      std::ranges::find_if(nodes, [](const Node& node) { return node.phase != Phase::kForward; });
  return static_cast<size_t>(after - nodes.begin());
}

size_t LastForwardEnd(const Program& program) {
  size_t end = program.nodes().size();
  while (end > 0 && program.nodes()[end - 1].phase != Phase::kForward) --end;
  return end;
}

size_t FirstUpdate(const Program& program) {
  const std::vector<Node>& nodes = program.nodes();
  const auto first = std::ranges::find(nodes, Phase::kUpdate, &Node::phase);
  return static_cast<size_t>(first - nodes.begin());
}

size_t UpdateTail(const Program& program) {
  const std::vector<Node>& nodes = program.nodes();
  size_t begin = nodes.size();
  for (size_t n = nodes.size(); n-- > 0;) {
    if (nodes[n].phase == Phase::kUpdate) {
      begin = n;
    } else if (!OnlyMoves(nodes[n])) {
      break;
    }
  }
  return begin;
}

std::map<TensorId, TensorId> GradientsOf(const Program& program) {
  std::map<TensorId, TensorId> gradients;
  for (size_t i = 0; i < program.tensors().size(); ++i) {
    const std::optional<Owner>& owner = program.tensors()[i].owner;
    if (!owner || owner->as != OwnedAs::kGradient) continue;
    const TensorId parameter = program.Find(owner->name);
    if (parameter != kNoTensor) gradients[parameter] = static_cast<TensorId>(i);
  }
  return gradients;
}

}  // namespace plimsoll::graph
