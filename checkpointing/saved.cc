#include "checkpointing/saved.h"

#include <algorithm>

#include "base/error.h"
#include "graph/block.h"
#include "graph/step_shape.h"
#include "ops/collectives/collective.h"

namespace plimsoll::checkpointing {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;

// Whether the node only makes a view, or computes scalars.
bool IsTrivial(const Program& program, const Node& node) {
  if (node.op->view) return true;
  auto is_number = [&](TensorId id) { return id == kNoTensor || program.tensor(id).type.scalar(); };
  return std::all_of(node.inputs.begin(), node.inputs.end(), is_number) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), is_number);
}

// Finds forward nodes that belong to the backward pass by their results: a loss fused with its
// backward op, nodes that write the gradient of a parameter, and all nodes that depend on these.
std::vector<bool> FindGradientNodes(const Program& program, int forward) {
  std::vector<bool> makes_gradients(forward, false);
  std::vector<bool> is_gradient(program.tensors().size(), false);
  for (int n = 0; n < forward; ++n) {
    const Node& node = program.nodes()[n];
    bool makes = node.op->with_backward;
    for (TensorId id : node.inputs) makes = makes || (id != kNoTensor && is_gradient[id]);
    for (TensorId id : node.outputs) {
      if (id == kNoTensor) continue;
      makes = makes || program.tensor(program.Root(id)).role == Role::kGradient;
    }
    makes_gradients[n] = makes;
    for (TensorId id : node.outputs) {
      if (id != kNoTensor) is_gradient[id] = makes;
    }
  }
  return makes_gradients;
}

bool WritesPersistent(const Program& program, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId id) {
    return id != kNoTensor && program.tensor(program.Root(id)).persistent;
  });
}

bool ReadAtOnce(const Program& program, const SavedTensor& saved) {
  const int last = saved.forward_uses.empty() ? saved.producer : saved.forward_uses.back();
  const std::vector<Node>& nodes = program.nodes();
  return std::all_of(nodes.begin() + last + 1, nodes.begin() + saved.uses.front(),
                     [&](const Node& node) { return IsTrivial(program, node); });
}

}  // namespace

int ForwardNodes(const Program& program) {
  const size_t end = graph::ForwardEnd(program);
  if (graph::LastForwardEnd(program) > end) {
    throw InternalError("checkpointing: a forward node of program '" + program.name() +
                        "' follows its backward pass");
  }
  return static_cast<int>(end);
}

std::vector<SavedTensor> FindSaved(const Program& program) {
  const int forward = ForwardNodes(program);
  const int count = static_cast<int>(program.nodes().size());
  const std::vector<bool> makes_gradients = FindGradientNodes(program, forward);

  const graph::Blocks blocks(program);
  std::vector<SavedTensor> written;
  std::vector<int> index(program.tensors().size(), -1);
  for (int n = 0; n < forward; ++n) {
    const Node& node = program.nodes()[n];
    for (TensorId id : node.inputs) {
      if (id == kNoTensor || index[program.Root(id)] < 0) continue;
      std::vector<int>& uses = written[index[program.Root(id)]].forward_uses;
      if (uses.empty() || uses.back() != n) uses.push_back(n);
    }
    if (node.op->view || makes_gradients[n]) continue;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoTensor) continue;
      const TensorId root = program.Root(node.outputs[i]);
      const Tensor& tensor = program.tensor(root);
      if (tensor.persistent || tensor.role != Role::kActivation || tensor.type.scalar()) continue;
      if (index[root] >= 0) {
        throw InternalError("checkpointing: '" + tensor.name + "' is written by two nodes");
      }
      index[root] = static_cast<int>(written.size());
      written.push_back({root,
                         tensor.bytes(),
                         n,
                         static_cast<int>(i),
                         blocks.Of(static_cast<size_t>(n)),
                         {},
                         {},
                         !WritesPersistent(program, node),
                         ops::GathersParameter(program, node),
                         false});
    }
  }
  for (int n = forward; n < count; ++n) {
    for (TensorId id : program.nodes()[n].inputs) {
      if (id == kNoTensor || index[program.Root(id)] < 0) continue;
      std::vector<int>& uses = written[index[program.Root(id)]].uses;
      if (uses.empty() || uses.back() != n) uses.push_back(n);
    }
  }

  std::vector<SavedTensor> saved;
  for (SavedTensor& tensor : written) {
    if (tensor.uses.empty()) continue;
    tensor.read_at_once = ReadAtOnce(program, tensor);
    // A tensor that the update reads can't be recomputed, because clones run in the backward pass,
    // before the update.
    if (program.nodes()[tensor.uses.back()].phase == graph::Phase::kUpdate) {
      tensor.recomputable = false;
    }
    saved.push_back(std::move(tensor));
  }
  return saved;
}

int64_t TotalBytes(const std::vector<SavedTensor>& saved) {
  int64_t bytes = 0;
  for (const SavedTensor& tensor : saved) bytes += tensor.bytes;
  return bytes;
}

}  // namespace plimsoll::checkpointing
