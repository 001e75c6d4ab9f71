#include "optim/update_units.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "graph/dependencies.h"
#include "graph/step_shape.h"
#include "graph/tensor_ids.h"
#include "ops/optimizer/optimizer.h"

namespace plimsoll::optim {
namespace {

using graph::Node;
using graph::Phase;
using graph::Program;
using graph::TensorId;
using graph::Transfer;

bool WritesAParameter(const Program& program, const Node& node) {
  return std::ranges::any_of(graph::Present(node.outputs), [&](TensorId id) {
    return program.tensor(id).role == graph::Role::kParameter;
  });
}

// Orders the nodes of the update at the end of a step by their units.
class Joiner {
 public:
  explicit Joiner(Program& program)
      : program_(program),
        units_(program),
        begin_(graph::UpdateTail(program)),
        members_(static_cast<size_t>(units_.count())),
        taken_(program.nodes().size(), false) {}

  void Run() {
    bool apart = false;  // whether nodes of other units are between those of a unit
    for (size_t n = begin_; n < program_.nodes().size(); ++n) {
      if (units_.Of(n) == kNoUnit) continue;
      std::vector<size_t>& members = Members(n);
      apart = apart || (!members.empty() && members.back() + 1 != n);
      members.push_back(n);
    }
    if (!apart) return;
    dependencies_ = graph::DependenciesOf(program_, graph::Views::kWrite);
    for (size_t n = begin_; n < program_.nodes().size(); ++n) {
      if (!taken_[n]) Take(units_.Of(n) == kNoUnit ? std::set<size_t>{n} : Together(n));
    }
    std::vector<Node>& nodes = program_.mutable_nodes();
    std::vector<Node> old(nodes.begin() + static_cast<ptrdiff_t>(begin_), nodes.end());
    for (size_t i = 0; i < order_.size(); ++i)
      nodes[begin_ + i] = std::move(old[order_[i] - begin_]);
  }

 private:
  std::vector<size_t>& Members(size_t node) {
    return members_[static_cast<size_t>(units_.Of(node))];
  }

  void Take(const std::set<size_t>& nodes) {
    for (size_t n : nodes) {
      taken_[n] = true;
      order_.push_back(n);
    }
  }

  // The node `first`, the nodes of its unit that can follow it directly, and the nodes on which
  // these depend.
  std::set<size_t> Together(size_t first) {
    std::set<size_t> together = {first};
    for (size_t member : Members(first)) {
      std::set<size_t> needed = together;
      if (!taken_[member] && Add(member, units_.Of(first), needed)) together = std::move(needed);
    }
    return together;
  }

  // Adds the node and the nodes that it depends on to `needed`. Returns false if one of these nodes
  // belongs to another unit or is a collective: all ranks must start collectives in the same order.
  bool Add(size_t node, int unit, std::set<size_t>& needed) const {
    if (node < begin_ || taken_[node] || needed.contains(node)) return true;
    const bool own = units_.Of(node) == unit, of_none = units_.Of(node) == kNoUnit;
    if (!own && !of_none) return false;
    if (of_none && program_.nodes()[node].op->transfer != Transfer::kNone) return false;
    needed.insert(node);
    return std::ranges::all_of(dependencies_[node],
                               [&](size_t before) { return Add(before, unit, needed); });
  }

  Program& program_;
  const UpdateUnits units_;
  const size_t begin_;
  std::vector<std::vector<size_t>> members_;  // by unit: its nodes
  graph::Dependencies dependencies_;
  std::vector<bool> taken_;
  std::vector<size_t> order_;
};

}  // namespace

UpdateUnits::UpdateUnits(const Program& program) : of_nodes_(program.nodes().size(), kNoUnit) {
  // Each slice of a parameter (optim/host_parameters.h) is a separate unit.
  using Key = std::pair<std::string_view, int64_t>;
  const auto key = [](const Node& node) {
    return Key(node.scope, ops::FirstElement(node.attributes));
  };
  std::map<Key, int> of_keys;
  const auto belongs = [](const Node& node) {
    return node.phase == Phase::kUpdate && node.op->transfer == Transfer::kNone;
  };
  for (const Node& node : program.nodes()) {
    if (!belongs(node) || node.op->view || !WritesAParameter(program, node)) continue;
    if (of_keys.emplace(key(node), count_).second) ++count_;
  }
  for (size_t n = 0; n < of_nodes_.size(); ++n) {
    const Node& node = program.nodes()[n];
    if (!belongs(node)) continue;
    const auto found = of_keys.find(key(node));
    if (found != of_keys.end()) of_nodes_[n] = found->second;
  }
}

void JoinUnits(Program& program) { Joiner(program).Run(); }

}  // namespace plimsoll::optim
