#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ops/collectives/collective.h"
#include "ops/fusions.h"
#include "ops/norms/unit_offset.h"
#include "ops/rewrite_nodes.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

TensorId At(const std::vector<TensorId>& arguments, size_t i) {
  return i < arguments.size() ? arguments[i] : kNoTensor;
}

// Whether a tensor of one list has the same memory as one of the other.
bool Meet(const Program& program, const std::vector<TensorId>& a, const std::vector<TensorId>& b) {
  return std::any_of(a.begin(), a.end(), [&](TensorId x) {
    return x != kNoTensor && std::any_of(b.begin(), b.end(), [&](TensorId y) {
             return y != kNoTensor && program.Root(x) == program.Root(y);
           });
  });
}

// Whether `later` may run before `node`.
bool MaySwap(const Program& program, const Node& node, const Node& later) {
  return !Meet(program, node.outputs, later.inputs) &&
         !Meet(program, node.outputs, later.outputs) && !Meet(program, node.inputs, later.outputs);
}

// The name of the norm that belongs to the backward op; empty for other ops.
std::string NormOf(const Node& backward) {
  if (backward.op->name == "layer_norm_backward") return "layer_norm";
  if (backward.op->name == "rms_norm_backward") return "rms_norm";
  return "";
}

// The rstd that a backward op reads.
TensorId RstdOf(const Node& backward) {
  return backward.inputs[backward.op->name == "layer_norm_backward" ? 3 : 2];
}

// Whether both nodes are collectives that are enqueued as one.
bool Together(const Node& a, const Node& b) { return a.op == b.op && IsCollective(*a.op); }

// Adds node `i` to the waiting nodes, together with the collectives that are enqueued as one with
// it.
void WaitWithNeighbours(const std::vector<Node>& nodes, size_t i, std::vector<size_t>& waiting) {
  size_t first = i;
  while (first - 1 > waiting.back() && Together(nodes[first - 1], nodes[i])) --first;
  for (; first <= i; ++first) waiting.push_back(first);
}

// The indices of the recomputed norm, of its backward op, and of the nodes between them that depend
// on the norm.
struct Match {
  size_t norm, backward;  // `backward` is the last node of the match
  std::vector<size_t> waiting;
  std::optional<size_t> first;  // the norm of the forward pass, if it must keep its statistics
};

// The index of the first statistic: after y, or after the sum and y.
size_t Statistics(const Node& norm) { return norm.op->name.starts_with("add_") ? 2 : 1; }

bool HasStatistics(const Node& norm) {
  for (size_t i = Statistics(norm); i < norm.outputs.size(); ++i) {
    if (norm.outputs[i] != kNoTensor) return true;
  }
  return false;
}

// The node of the forward pass that `again` repeats, if its statistics were left out.
std::optional<size_t> FirstNorm(const Program& program, const Node& again) {
  const std::string with_sum = "add_" + again.op->name;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (node.phase != graph::Phase::kForward) return std::nullopt;
    const bool plain = node.op->name == again.op->name && node.inputs[0] == again.inputs[0] &&
                       node.inputs[1] == again.inputs[1];
    const bool added = node.op->name == with_sum && node.outputs[0] == again.inputs[0] &&
                       node.inputs[2] == again.inputs[1];
    if (!plain && !added) continue;
    if (node.attributes.GetReal("eps") == again.attributes.GetReal("eps") && !HasStatistics(node)) {
      return i;
    }
  }
  return std::nullopt;
}

// For each tensor of statistics, the eps with which it was computed; -1 for other tensors.
std::vector<double> EpsOfStatistics(const Program& program) {
  std::vector<double> eps(program.tensors().size(), -1);
  for (const Node& node : program.nodes()) {
    const std::string& name = node.op->name;
    const bool plain = name == "layer_norm" || name == "rms_norm";
    if (!plain && name != "add_layer_norm" && name != "add_rms_norm") continue;
    for (size_t i = plain ? 1 : 2; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoTensor) eps[node.outputs[i]] = node.attributes.GetReal("eps");
    }
  }
  return eps;
}

std::optional<Match> MatchAt(const Program& program, const std::vector<double>& eps,
                             size_t backward) {
  const std::vector<Node>& nodes = program.nodes();
  const Node& gradient = nodes[backward];
  const std::string name = NormOf(gradient);
  if (name.empty()) return std::nullopt;
  const auto is_norm = [&](const Node& node) {
    return node.phase == graph::Phase::kRecompute && node.op->name == name &&
           node.inputs[0] == gradient.inputs[0] && node.inputs[1] == gradient.inputs[1] &&
           HasUnitOffset(node.attributes) == HasUnitOffset(gradient.attributes);
  };
  size_t place = backward;
  do {
    if (place-- == 0 || nodes[place].phase == graph::Phase::kForward) return std::nullopt;
  } while (!is_norm(nodes[place]));
  const Node& norm = nodes[place];
  if (program.tensor(program.Root(norm.outputs[0])).persistent) return std::nullopt;
  if (eps[RstdOf(gradient)] != norm.attributes.GetReal("eps")) return std::nullopt;
  Match match{place, backward, {}, {}};
  if (HasStatistics(norm)) {
    match.first = FirstNorm(program, norm);
    if (!match.first) return std::nullopt;
  }

  // The norm, and the nodes that depend on it, wait until the backward op has run.
  std::vector<size_t> waiting = {place};
  for (size_t i = place + 1; i < backward; ++i) {
    const bool depends = std::any_of(waiting.begin(), waiting.end(), [&](size_t earlier) {
      return Meet(program, nodes[i].inputs, nodes[earlier].outputs);
    });
    if (depends || (Together(nodes[i], nodes[i - 1]) && waiting.back() == i - 1)) {
      WaitWithNeighbours(nodes, i, waiting);
    } else if (!std::all_of(waiting.begin(), waiting.end(), [&](size_t earlier) {
                 return MaySwap(program, nodes[earlier], nodes[i]);
               })) {
      return std::nullopt;
    }
  }
  match.waiting.assign(waiting.begin() + 1, waiting.end());
  for (size_t i : match.waiting) {
    if (!MaySwap(program, nodes[i], gradient)) return std::nullopt;
  }
  return match;
}

void Apply(Program& program, const Match& match) {
  std::vector<Node>& nodes = program.mutable_nodes();
  const Node& norm = nodes[match.norm];
  if (match.first) {
    Node& first = nodes[*match.first];
    first.outputs.resize(Statistics(first) + norm.outputs.size() - 1, kNoTensor);
    for (size_t i = 1; i < norm.outputs.size(); ++i) {
      first.outputs[Statistics(first) + i - 1] = norm.outputs[i];
    }
  }
  Node both = std::move(nodes[match.backward]);
  const bool layer_norm = norm.op->name == "layer_norm";
  both.op = &graph::OpRegistry::Get().Require(norm.op->name + "_with_backward");
  both.made_by = "fuse";
  if (layer_norm) both.inputs.insert(both.inputs.begin() + 2, At(norm.inputs, 2));
  both.outputs.insert(both.outputs.begin(), norm.outputs[0]);

  MoveAfter(nodes, match.norm, match.waiting, std::move(both));
}

}  // namespace

int FuseRecomputedNorms(Program& program) {
  const std::vector<double> eps = EpsOfStatistics(program);
  return RewriteNodes(program, [&] {
    const std::optional<Match> match = MatchAt(program, eps, program.nodes().size() - 1);
    if (match) Apply(program, *match);
    return match.has_value();
  });
}

}  // namespace plimsoll::ops
