#include "optim/host_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "graph/block.h"
#include "graph/builder.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/collective.h"
#include "ops/reductions/reduce.h"
#include "optim/host_prefetch.h"
#include "optim/host_residency.h"
#include "optim/update_units.h"

namespace plimsoll::optim {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Place;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;

// Whether each tensor is selected, indexed by TensorId.
using Selected = std::vector<bool>;

// Selects moments, masters and averages: the state that a parameter's update changes in place.
void SelectState(const Program& program, Selected& selected) {
  const UpdateUnits units(program);
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    if (units.Of(n) == kNoUnit) continue;
    const Node& node = program.nodes()[n];
    for (TensorId id : graph::Present(node.outputs)) {
      const bool in_place = std::ranges::find(node.inputs, id) != node.inputs.end();
      const Role role = program.tensor(id).role;
      if (in_place && (role == Role::kOptimizerState || role == Role::kMaster)) selected[id] = true;
    }
  }
}

// Selects all tensors that are placed on the host, except copies for a snapshot.
Selected Selection(const Program& program) {
  Selected selected(program.tensors().size(), false);
  for (const TensorId id : graph::TensorIds(program)) {
    const Tensor& tensor = program.tensor(id);
    selected[id] = tensor.persistent && !tensor.alias && tensor.place == Place::kHost &&
                   (tensor.role == Role::kGradient || graph::OutlivesSteps(tensor));
  }
  return selected;
}

// Divides norms into sums of squares, so that each sum is computed while its selected gradient is
// on the device.
class NormApart {
 public:
  NormApart(Program& program, const Selected& selected)
      : program_(program), builder_(program), selected_(selected) {
    builder_.set_made_by("host_parameters");
  }

  void Run() {
    const std::vector<Node>& before = program_.nodes();
    std::map<TensorId, size_t> written;  // maps a gradient to the last node that writes it
    std::vector<bool> moves(before.size(), false);
    for (size_t n = 0; n < before.size(); ++n) {
      for (TensorId id : before[n].outputs) {
        const bool writes = !before[n].op->view || ops::IsCollectiveDone(*before[n].op);
        if (IsSelected(id) && writes) written[program_.Root(id)] = n;
      }
      if (!IsNorm(before[n]) && !IsSum(before[n])) continue;
      for (TensorId id : before[n].inputs) {
        const auto found = IsSelected(id) ? written.find(program_.Root(id)) : written.end();
        if (found == written.end()) continue;
        moves[n] = IsSum(before[n]);
        behind_[found->second].push_back({id, n});
      }
    }
    if (behind_.empty()) return;
    const std::vector<Node> nodes = std::exchange(program_.mutable_nodes(), {});
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (moves[n]) continue;
      if (IsNorm(nodes[n]) &&
          std::ranges::any_of(nodes[n].inputs, [&](TensorId id) { return IsSelected(id); })) {
        TakeApart(nodes[n]);
      } else {
        program_.mutable_nodes().push_back(nodes[n]);
      }
      for (const Summed& summed : behind_[n]) {
        if (!moves[summed.by]) {
          Square(summed.gradient, nodes[n]);
          continue;
        }
        Node sum = nodes[summed.by];
        sum.scope = nodes[n].scope;
        sum.phase = nodes[n].phase;
        sum.micro_step = nodes[n].micro_step;
        program_.mutable_nodes().push_back(std::move(sum));
      }
    }
  }

 private:
  // A gradient, and the node that reads it: the norm, or the node that computes the gradient's sum
  // of squares.
  struct Summed {
    TensorId gradient = kNoTensor;
    size_t by = 0;
  };

  bool IsSelected(TensorId id) const {
    return id != kNoTensor && static_cast<size_t>(program_.Root(id)) < selected_.size() &&
           selected_[program_.Root(id)];
  }

  // Whether the node is the norm of several gradients.
  static bool IsNorm(const Node& node) {
    return node.phase == graph::Phase::kUpdate && node.inputs.size() > 1 &&
           node.op->name == "global_norm";
  }

  // Whether the node computes one gradient's part of a norm that is already divided.
  static bool IsSum(const Node& node) {
    return node.phase == graph::Phase::kUpdate && node.op->name == "square_sum";
  }

  void TakeApart(const Node& norm) {
    std::vector<TensorId> sums;
    for (TensorId id : norm.inputs) {
      Square(id, norm);
      sums.push_back(squares_.at(id));
    }
    builder_.set_context_of(norm);
    builder_.EmitInto(norm.outputs, "root_of_sums", std::move(sums));
  }

  void Square(TensorId gradient, const Node& beside) {
    if (squares_.contains(gradient)) return;
    const std::string name = program_.tensor(gradient).name + ".squares";
    builder_.set_context_of(beside);
    const TensorId squares = ops::SquareSum(builder_, gradient, name);
    program_.Rename(squares, program_.FreshName(name));
    squares_[gradient] = squares;
  }

  Program& program_;
  graph::Builder builder_;
  const Selected& selected_;
  std::map<size_t, std::vector<Summed>>
      behind_;  // maps the last node that writes a gradient to what is summed after it
  std::map<TensorId, TensorId> squares_;  // maps a gradient to its sum of squares
};

}  // namespace

graph::PassResult PlaceOnHost::Run(Program& program) {
  Selected selected(program.tensors().size(), false);
  for (const TensorId id : graph::TensorIds(program)) {
    const Tensor& tensor = program.tensor(id);
    if (!tensor.persistent || tensor.alias || tensor.bytes() < options_.least_bytes) continue;
    selected[id] = (options_.weights && tensor.role == Role::kParameter) ||
                   (options_.gradients && tensor.role == Role::kGradient);
  }
  if (options_.state) SelectState(program, selected);
  const std::vector<std::string>& blocks = options_.blocks;
  const auto may_leave = [&](const Tensor& tensor) {
    return blocks.empty() || std::ranges::find(blocks, graph::BlockIn(tensor.name)) != blocks.end();
  };
  int tensors = 0;
  int64_t bytes = 0;
  for (const TensorId id : graph::TensorIds(program)) {
    const TensorId root = program.Root(id);
    if (!selected[root] || !may_leave(program.tensor(root))) continue;
    program.mutable_tensor(id).place = Place::kHost;  // a view is in the same place as its base
    if (id != root) continue;
    bytes += program.tensor(id).bytes();
    ++tensors;
  }
  return {tensors > 0,
          fmt::format("{} of parameters, {}, {} on the host", Counted(tensors, "tensor"),
                      FormatBytes(bytes), tensors == 1 ? "lives" : "live")};
}

graph::PassResult HostParameters::Run(Program& program) {
  Selected selected = Selection(program);
  if (!HasResidencies(program, selected)) return {false, "no node uses what lives on the host"};
  NormApart(program, selected).Run();
  JoinUnits(program);
  selected.resize(program.tensors().size(), false);
  const std::vector<FetchGroup> groups = FindResidencies(program, selected);
  EmitTransfers(program, groups, options_.ahead_bytes);
  size_t residencies = 0;
  int64_t bytes = 0;
  for (const FetchGroup& group : groups) {
    residencies += group.residencies.size();
    bytes += group.to_load;
  }
  return {true, fmt::format("{} on the device, {} to load", Counted(residencies, "stay"),
                            FormatBytes(bytes))};
}

}  // namespace plimsoll::optim
