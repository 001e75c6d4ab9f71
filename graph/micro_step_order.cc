#include "graph/micro_step_order.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "graph/block_segments.h"

namespace plimsoll::graph {
namespace {

Stages OneAfterAnother(const Program& program) {
  Stages stages;
  for (const Node& node : program.nodes()) stages.of_nodes.push_back(node.micro_step);
  stages.fixed.resize(program.nodes().size(), true);
  return stages;
}

constexpr std::array kOrders = {
    MicroStepOrder{"one after another", &OneAfterAnother},
    MicroStepOrder{"blocks first", &BlockSegments},
};

// Proves that an order keeps dependencies: no node has an earlier stage than the nodes that it has
// to follow. A node has to follow all earlier nodes of its micro-step, and earlier nodes of other
// micro-steps that write a tensor which it reads or writes, or read a tensor which it writes. Where
// needed, a node moves to the latest stage of the nodes that it has to follow.
class OrderProver {
 public:
  OrderProver(const Program& program, const Stages& stages)
      : program_(program),
        written_(program.tensors().size(), 0),
        read_(program.tensors().size(), 0) {
    std::map<int32_t, int> reached;  // maps a micro-step to the stage that it has reached
    for (size_t at = 0; at < program.nodes().size(); ++at) {
      const Node& node = program.nodes()[at];
      int& stage = reached[node.micro_step];
      stage = std::max(stage, stages.of_nodes[at]);
      if (Uses(node)) {
        stage = LeastStage(node, stage);
        Note(node, stage);
      }
      torn_ = torn_ || (stage > stages.of_nodes[at] && stages.fixed[at]);
      of_nodes_.push_back(stage);
    }
  }

  ProvenOrder Run() const {
    ProvenOrder proven{.nodes = std::vector<size_t>(of_nodes_.size()),
                       .torn = torn_ ? culprit_ : kNoTensor};
    std::iota(proven.nodes.begin(), proven.nodes.end(), size_t{0});
    std::ranges::stable_sort(proven.nodes, {}, [&](size_t at) {
      return std::pair(of_nodes_[at], program_.nodes()[at].micro_step);
    });
    return proven;
  }

 private:
  // A view neither reads nor writes: the nodes that use the view do. The second half of a transfer
  // has the form of a view, but it counts as reading and writing, because the bytes arrive only
  // then.
  static bool Uses(const Node& node) {
    return !node.op->view || node.op->transfer != Transfer::kNone;
  }

  // The earliest stage that the node may have. `least`: the stage that its own micro-step has
  // reached.
  int LeastStage(const Node& node, int least) {
    TensorId cause = kNoTensor;
    const auto follow = [&](TensorId root, int stage) {
      if (stage <= least) return;
      least = stage;
      cause = root;
    };
    for (TensorId id : node.inputs) {
      if (id != kNoTensor) follow(program_.Root(id), written_[program_.Root(id)]);
    }
    for (TensorId id : node.outputs) {
      if (id == kNoTensor) continue;
      const TensorId root = program_.Root(id);
      follow(root, std::max(written_[root], read_[root]));
    }
    if (culprit_ == kNoTensor) culprit_ = cause;
    return least;
  }

  void Note(const Node& node, int stage) {
    for (TensorId id : node.inputs) {
      if (id != kNoTensor) Raise(read_[program_.Root(id)], stage);
    }
    for (TensorId id : node.outputs) {
      if (id != kNoTensor) Raise(written_[program_.Root(id)], stage);
    }
  }

  static void Raise(int& last, int stage) { last = std::max(last, stage); }

  const Program& program_;
  std::vector<int> written_, read_;  // by tensor that owns memory: the last stage that writes or
                                     // reads it
  std::vector<int> of_nodes_;
  TensorId culprit_ = kNoTensor;
  bool torn_ = false;
};

}  // namespace

std::span<const MicroStepOrder> MicroStepOrders() { return kOrders; }

const MicroStepOrder& RequireOrder(std::string_view name) {
  const auto found = std::ranges::find(kOrders, name, &MicroStepOrder::name);
  if (found == kOrders.end()) {
    throw InternalError("no order of micro-steps is called '" + std::string(name) + "'");
  }
  return *found;
}

ProvenOrder Prove(const Program& program, const Stages& stages) {
  return OrderProver(program, stages).Run();
}

}  // namespace plimsoll::graph
