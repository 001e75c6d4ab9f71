#include "optim/update_in_backward.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "graph/builder.h"
#include "graph/dependencies.h"
#include "graph/step_shape.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/collective.h"
#include "ops/reductions/reduce.h"

namespace plimsoll::optim {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Phase;
using graph::Program;
using graph::TensorId;
using graph::Value;

// Moves nodes of the update into the backward pass.
class Mover {
 public:
  Mover(Program& program, const UpdateInBackwardOptions& options)
      : program_(program),
        options_(options),
        builder_(program),
        dependencies_(graph::DependenciesOf(program, graph::Views::kWrite)) {
    builder_.set_made_by("update_in_backward");
    end_ = graph::UpdateTail(program);
    earliest_ = std::min(end_, graph::LastForwardEnd(program));
    complete_ = end_;
    while (complete_ > 0 && !Writes(program.nodes()[complete_ - 1], graph::Role::kGradient))
      --complete_;
  }

  // Finds where each node moves. Returns the gradients whose updates move; the set is empty if
  // every update depends on all gradients.
  const std::set<TensorId>& Plan() {
    bool sooner = false;  // whether an update runs before the last gradient is complete
    for (size_t at = end_; at < program_.nodes().size(); ++at) {
      const TensorId gradient = FindGradientOf(at);
      if (gradient == kNoTensor || SlotOf(at) == end_) continue;
      sooner = sooner || SlotOf(at) < complete_;
      gradients_.insert(gradient);
      Move(at);
    }
    if (!sooner) gradients_.clear();
    return gradients_;
  }

  void Apply() {
    std::vector<Node> old = std::exchange(program_.mutable_nodes(), {});
    std::map<size_t, std::vector<size_t>>
        moved;  // maps a slot (a position between nodes) to the nodes that move there
    for (const auto& [at, slot] : slots_) {
      if (moves_.contains(at)) moved[slot].push_back(at);
    }
    for (size_t slot = 0; slot <= end_; ++slot) {
      for (size_t at : moved[slot]) {
        for (TensorId id : graph::Present(old[at].inputs)) {
          if (gradients_.contains(id)) Square(id, old[at]);
        }
        Put(std::move(old[at]));
      }
      if (slot < end_) program_.mutable_nodes().push_back(std::move(old[slot]));
    }
    for (size_t at = end_; at < old.size(); ++at) {
      if (!moves_.contains(at)) Put(std::move(old[at]));
    }
  }

 private:
  bool Writes(const Node& node, graph::Role role) const {
    return std::ranges::any_of(graph::Present(node.outputs), [&](TensorId id) {
      return program_.tensor(program_.Root(id)).role == role;
    });
  }

  // The gradient with which a node updates a parameter. kNoTensor: the node updates no parameter,
  // or must not move.
  TensorId FindGradientOf(size_t at) const {
    const Node& node = program_.nodes()[at];
    if (node.phase != Phase::kUpdate || ops::IsCollective(*node.op)) return kNoTensor;
    if (!Writes(node, graph::Role::kParameter)) return kNoTensor;
    std::set<size_t> seen;
    const TensorId id = GradientRead(at, seen);
    if (id == kNoTensor) return kNoTensor;
    const graph::Tensor& root = program_.tensor(program_.Root(id));
    const bool may = !root.persistent || options_.carried;
    return may && program_.tensor(id).bytes() >= options_.least_bytes ? id : kNoTensor;
  }

  // The gradient that a node of the update reads, directly or through nodes of the same scope:
  // Muon's step, for example, reads the result of a chain of nodes.
  TensorId GradientRead(size_t at, std::set<size_t>& seen) const {
    if (!seen.insert(at).second) return kNoTensor;
    const Node& node = program_.nodes()[at];
    for (TensorId id : graph::Present(node.inputs)) {
      if (program_.tensor(id).role == graph::Role::kGradient) return id;
    }
    for (size_t before : dependencies_[at]) {
      const Node& earlier = program_.nodes()[before];
      if (before < end_ || earlier.scope != node.scope || ops::IsCollective(*earlier.op)) continue;
      const TensorId id = GradientRead(before, seen);
      if (id != kNoTensor) return id;
    }
    return kNoTensor;
  }

  // The first slot to which a node of the update may move: the number of nodes before the update
  // that must precede the moved node.
  size_t SlotOf(size_t at) {
    if (const auto known = slots_.find(at); known != slots_.end()) return known->second;
    const graph::OpDef& op = *program_.nodes()[at].op;
    // A collective must not move before other collectives, because all ranks start them in one
    // order.
    size_t slot = ops::IsCollective(op) ? end_ : earliest_;
    for (size_t before : dependencies_[at]) {
      slot = std::max(slot, before < end_ ? before + 1 : SlotOf(before));
    }
    if (ops::IsCollectiveDone(op)) slot = NextCollective(slot);
    return slots_[at] = slot;
  }

  // The slot of the first collective that starts at or after `slot`: until then, collectives in
  // flight overlap with the computation.
  size_t NextCollective(size_t slot) const {
    while (slot < end_ && !ops::IsCollective(*program_.nodes()[slot].op)) ++slot;
    return slot;
  }

  void Move(size_t at) {
    if (!moves_.insert(at).second) return;
    for (size_t before : dependencies_[at]) {
      if (before >= end_) Move(before);
    }
  }

  // Emits the sum of squares of `gradient`, unless that was done before.
  void Square(TensorId gradient, const Node& update) {
    if (squares_.contains(gradient)) return;
    builder_.set_context_of(update);
    squares_[gradient] =
        ops::SquareSum(builder_, gradient, builder_.NameWithin(gradient) + ".squares");
  }

  // Adds a node of the update to the program.
  void Put(Node&& node) {
    const bool of_gradients = std::ranges::any_of(node.inputs, [&](TensorId id) {
      return program_.tensor(id).role == graph::Role::kGradient;
    });
    // The norm of a parameter's momentum is not divided into sums.
    if (node.op->name == "global_norm" && (of_gradients || node.scope.empty())) {
      Norm(node);
    } else {
      program_.mutable_nodes().push_back(std::move(node));
    }
  }

  void Norm(const Node& norm) {
    std::vector<Value> sums;
    for (TensorId id : norm.inputs) {
      Square(id, norm);
      sums.push_back(squares_.at(id));
    }
    builder_.set_context_of(norm);
    builder_.EmitInto(norm.outputs, "root_of_sums", std::move(sums));
  }

  Program& program_;
  const UpdateInBackwardOptions& options_;
  graph::Builder builder_;
  const graph::Dependencies dependencies_;
  size_t earliest_ = 0;  // after the forward passes of all micro-steps
  size_t complete_ = 0;  // after the last node that writes a gradient
  size_t end_ = 0;       // the first node of the update
  std::map<size_t, size_t> slots_;
  std::set<size_t> moves_;
  std::set<TensorId> gradients_;
  std::map<TensorId, Value> squares_;  // by gradient: its sum of squares
};

}  // namespace

graph::PassResult UpdateInBackward::Run(Program& program) {
  if (graph::FirstUpdate(program) == program.nodes().size()) return {false, "no update"};
  Mover mover(program, options_);
  const std::set<TensorId>& gradients = mover.Plan();
  if (gradients.empty()) {
    return {
        false,
        "none moved: the updates wait for the norm of all gradients (by which they are clipped, "
        "skipped or scaled), or their gradients are carried over micro-steps, or small"};
  }
  mover.Apply();
  int64_t bytes = 0;
  for (TensorId id : gradients) bytes += program.tensor(id).bytes();
  return {true, fmt::format("updates moved of {}, {}", Counted(gradients.size(), "gradient"),
                            FormatBytes(bytes))};
}

}  // namespace plimsoll::optim
