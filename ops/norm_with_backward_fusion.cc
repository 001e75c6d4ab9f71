#include "ops/norm_with_backward_fusion.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

TensorId At(const std::vector<TensorId>& arguments, size_t i) {
  return i < arguments.size() ? arguments[i] : kNoTensor;
}

// Do both lists name the same memory somewhere?
bool Meet(const Program& program, const std::vector<TensorId>& a, const std::vector<TensorId>& b) {
  return std::any_of(a.begin(), a.end(), [&](TensorId x) {
    return x != kNoTensor && std::any_of(b.begin(), b.end(), [&](TensorId y) {
             return y != kNoTensor && program.Root(x) == program.Root(y);
           });
  });
}

// May `later` run before `node`?
bool MaySwap(const Program& program, const Node& node, const Node& later) {
  return !Meet(program, node.outputs, later.inputs) &&
         !Meet(program, node.outputs, later.outputs) && !Meet(program, node.inputs, later.outputs);
}

// The norm of that backward op; empty for other ops.
std::string NormOf(const Node& backward) {
  if (backward.op->name == "layer_norm_backward") return "layer_norm";
  if (backward.op->name == "rms_norm_backward") return "rms_norm";
  return "";
}

// The rstd that a backward op reads.
TensorId RstdOf(const Node& backward) {
  return backward.inputs[backward.op->name == "layer_norm_backward" ? 3 : 2];
}

// Places in the schedule of the norm that is made again, of its backward op, and of the norm's
// readers between them.
struct Match {
  size_t norm, backward;
  std::vector<size_t> readers;
};

// With which eps each tensor of statistics was made; -1 for other tensors.
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
           std::all_of(node.outputs.begin() + 1, node.outputs.end(),
                       [](TensorId id) { return id == kNoTensor; });
  };
  size_t place = backward;
  do {
    if (place-- == 0 || nodes[place].phase == graph::Phase::kForward) return std::nullopt;
  } while (!is_norm(nodes[place]));
  const Node& norm = nodes[place];
  if (program.tensor(program.Root(norm.outputs[0])).persistent) return std::nullopt;
  if (eps[RstdOf(gradient)] != norm.attributes.GetReal("eps")) return std::nullopt;

  // The norm, and with it what reads it, waits until the backward op has run.
  Match match{place, backward, {}};
  std::vector<size_t> waiting = {place};
  for (size_t i = place + 1; i < backward; ++i) {
    if (Meet(program, nodes[i].inputs, norm.outputs)) {
      match.readers.push_back(i);
      waiting.push_back(i);
    } else if (!std::all_of(waiting.begin(), waiting.end(), [&](size_t earlier) {
                 return MaySwap(program, nodes[earlier], nodes[i]);
               })) {
      return std::nullopt;
    }
  }
  for (size_t i : match.readers) {
    if (!MaySwap(program, nodes[i], gradient)) return std::nullopt;
  }
  return match;
}

void Apply(Program& program, const Match& match) {
  std::vector<Node>& nodes = program.mutable_nodes();
  const Node& norm = nodes[match.norm];
  Node both = nodes[match.backward];
  const bool layer_norm = norm.op->name == "layer_norm";
  both.op = &graph::OpRegistry::Get().Require(norm.op->name + "_with_backward");
  both.made_by = "fuse";
  if (layer_norm) both.inputs.insert(both.inputs.begin() + 2, At(norm.inputs, 2));
  both.outputs.insert(both.outputs.begin(), norm.outputs[0]);

  const auto waits = [&](size_t i) {
    return std::find(match.readers.begin(), match.readers.end(), i) != match.readers.end();
  };
  std::vector<Node> result(nodes.begin(), nodes.begin() + match.norm);
  for (size_t i = match.norm + 1; i < match.backward; ++i) {
    if (!waits(i)) result.push_back(nodes[i]);
  }
  result.push_back(std::move(both));
  for (size_t i : match.readers) result.push_back(nodes[i]);
  result.insert(result.end(), nodes.begin() + match.backward + 1, nodes.end());
  nodes = std::move(result);
}

}  // namespace

int FuseRecomputedNorms(Program& program) {
  const std::vector<double> eps = EpsOfStatistics(program);
  int replaced = 0;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    if (const std::optional<Match> match = MatchAt(program, eps, i)) {
      Apply(program, *match);
      ++replaced;
    }
  }
  return replaced;
}

}  // namespace plimsoll::ops
