#include "graph/companions.h"

#include <algorithm>

namespace plimsoll::graph {
namespace {

// By node: the answer of `is(node, collected)`. `collected` says, by tensor that owns memory,
// whether a collective has written the tensor before that node.
template <typename Is>
std::vector<bool> NodesAmongCollectives(const Program& program, const Is& is) {
  std::vector<bool> collected(program.tensors().size(), false), found;
  for (const Node& node : program.nodes()) {
    const bool starts = node.op->transfer == Transfer::kCollectiveStart;
    for (TensorId id : node.outputs) {
      if (starts && id != kNoTensor) collected[program.Root(id)] = true;
    }
    found.push_back(is(node, collected));
  }
  return found;
}

}  // namespace

bool OnlyMoves(const Node& node) { return node.op->view || node.op->transfer != Transfer::kNone; }

bool MakesParameter(const Program& program, const Node& node) {
  if (OnlyMoves(node) || node.phase == Phase::kUpdate) return false;
  return std::ranges::any_of(node.outputs, [&](TensorId id) {
    if (id == kNoTensor) return false;
    const Tensor& root = program.tensor(program.Root(id));
    return root.role == Role::kParameter && !root.persistent;
  });
}

std::vector<bool> AddToCarriedGradients(const Program& program) {
  const auto is_carried_gradient = [&](TensorId id) {
    if (id == kNoTensor) return false;
    const Tensor& root = program.tensor(program.Root(id));
    return root.persistent && root.role == Role::kGradient;
  };
  return NodesAmongCollectives(program, [&](const Node& node, const std::vector<bool>& collected) {
    const auto arrives = [&](TensorId id) {
      if (id == kNoTensor || is_carried_gradient(id)) return true;
      const TensorId root = program.Root(id);
      return collected[root] || program.tensor(root).role == Role::kInput;
    };
    return std::ranges::all_of(node.outputs, is_carried_gradient) &&
           std::ranges::all_of(node.inputs, arrives);
  });
}

std::vector<bool> ReadSummedGradients(const Program& program) {
  return NodesAmongCollectives(program, [&](const Node& node, const std::vector<bool>& collected) {
    bool summed = false;
    for (TensorId id : node.inputs) {
      if (id == kNoTensor) continue;
      const TensorId root = program.Root(id);
      const Role role = program.tensor(root).role;
      if (role != Role::kGradient && role != Role::kInput) return false;
      summed = summed || collected[root];
    }
    return summed;
  });
}

}  // namespace plimsoll::graph
