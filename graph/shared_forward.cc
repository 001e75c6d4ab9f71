#include <fmt/format.h>

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "graph/step_passes.h"

namespace plimsoll::graph {
namespace {

class Sharer {
 public:
  explicit Sharer(Program& program) : program_(program) {
    for (size_t id = 0; id < program.tensors().size(); ++id) {
      same_as_.push_back(static_cast<TensorId>(id));
    }
    writes_.resize(program.tensors().size(), 0);
  }

  // Returns the number of nodes that were removed.
  int64_t Run() {
    int64_t shared = 0;
    std::vector<Node> kept;
    for (Node& node : program_.mutable_nodes()) {
      for (TensorId& id : node.inputs) id = Same(id);
      if (Node* const earlier = FindEarlier(node, kept)) {
        GiveWay(node, *earlier);
        ++shared;
        continue;
      }
      Written(node);
      kept.push_back(std::move(node));
      Remember(kept.size() - 1, kept.back());
    }
    program_.mutable_nodes() = std::move(kept);
    if (shared == 0) return 0;
    for (size_t id = 0; id < same_as_.size(); ++id) {
      std::optional<Alias>& alias = program_.mutable_tensor(static_cast<TensorId>(id)).alias;
      if (alias) alias->base = Same(alias->base);
    }
    program_.DropUnusedTensors();
    return shared;
  }

 private:
  // Nodes with equal keys compute the same. An input is identified by its tensor and by how often
  // the tensor has been written.
  using Key = std::tuple<const OpDef*, std::vector<Attributes::Entry>,
                         std::vector<std::pair<TensorId, int64_t>>>;
  struct Earlier {
    size_t node;                  // index into the nodes that are kept
    std::vector<int64_t> writes;  // by output: how often the tensor had been written by then
  };

  TensorId Same(TensorId id) const {
    return id == kNoTensor ? id : same_as_[static_cast<size_t>(id)];
  }
  // How often a tensor, or the tensor that a view belongs to, has been written.
  int64_t Writes(TensorId id) const {
    return id == kNoTensor ? 0 : writes_[static_cast<size_t>(Owner(id))];
  }
  TensorId Owner(TensorId id) const {
    while (program_.tensor(id).alias) id = Same(program_.tensor(id).alias->base);
    return id;
  }
  void Written(const Node& node) {
    if (node.op->view) return;
    for (TensorId id : node.outputs) {
      if (id != kNoTensor) ++writes_[static_cast<size_t>(Owner(id))];
    }
  }
  std::vector<int64_t> WritesOf(const std::vector<TensorId>& ids) const {
    std::vector<int64_t> writes;
    for (TensorId id : ids) writes.push_back(Writes(id));
    return writes;
  }

  bool MayShare(const Node& node) const {
    if (node.phase != Phase::kForward || node.op->transfer != Transfer::kNone) return false;
    for (TensorId id : node.outputs) {
      if (id == kNoTensor) continue;
      const Tensor& tensor = program_.tensor(node.op->view ? id : Owner(id));
      if (tensor.role != Role::kActivation || tensor.persistent) return false;
    }
    return true;
  }

  // Makes `earlier` also write the outputs that are read only from `node`.
  void GiveWay(const Node& node, Node& earlier) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoTensor) continue;
      if (earlier.outputs[i] != kNoTensor) {
        same_as_[static_cast<size_t>(node.outputs[i])] = earlier.outputs[i];
        continue;
      }
      earlier.outputs[i] = node.outputs[i];
      earlier.workspace = kNoTensor;  // with more outputs the node may need a larger workspace
      ++writes_[static_cast<size_t>(node.outputs[i])];
      known_.at(KeyOf(node)).writes = WritesOf(earlier.outputs);
    }
  }

  Key KeyOf(const Node& node) const {
    Key key{node.op, node.attributes.entries(), {}};
    for (TensorId id : node.inputs) std::get<2>(key).emplace_back(id, Writes(id));
    return key;
  }

  void Remember(size_t index, const Node& node) {
    if (MayShare(node)) known_[KeyOf(node)] = {index, WritesOf(node.outputs)};
  }

  // The node of an earlier micro-step whose outputs still hold everything that `node` would write;
  // nullptr if no such node exists.
  Node* FindEarlier(const Node& node, std::vector<Node>& kept) const {
    if (node.micro_step == 0 || !MayShare(node)) return nullptr;
    const auto found = known_.find(KeyOf(node));
    if (found == known_.end()) return nullptr;
    Node& earlier = kept[found->second.node];
    if (earlier.micro_step == node.micro_step) return nullptr;
    if (WritesOf(earlier.outputs) != found->second.writes) return nullptr;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoTensor || earlier.outputs[i] == kNoTensor) continue;
      const Tensor &here = program_.tensor(node.outputs[i]),
                   &there = program_.tensor(earlier.outputs[i]);
      const bool alike = here.type == there.type && here.place == there.place &&
                         here.alias.has_value() == there.alias.has_value() &&
                         (!here.alias || (here.alias->byte_offset == there.alias->byte_offset &&
                                          here.alias->part_along == there.alias->part_along));
      if (!alike) return nullptr;
    }
    return &earlier;
  }

  Program& program_;
  std::vector<TensorId> same_as_;  // by tensor: the tensor that replaces it
  std::vector<int64_t> writes_;    // by owner of memory: how many nodes have written it so far
  std::map<Key, Earlier> known_;
};

}  // namespace

PassResult ShareForward::Run(Program& program) {
  const int64_t shared = Sharer(program).Run();
  return {shared > 0, fmt::format("{} shared", Counted(shared, "forward node"))};
}

}  // namespace plimsoll::graph
