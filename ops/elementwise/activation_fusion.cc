#include "ops/elementwise/activation_fusion.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/rewrite_nodes.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::OpRegistry;
using graph::Program;
using graph::TensorId;

// The ops of an activation: the activation itself, its gradient (whose inputs are those of the
// activation, then dy), and one op for both.
struct Activation {
  std::string_view forward, backward, both;
};
constexpr Activation kActivations[] = {
    {"gelu", "gelu_backward", "gelu_with_backward"},
    {"swiglu", "swiglu_backward", "swiglu_with_backward"},
    {"geglu", "geglu_backward", "geglu_with_backward"},
};

// Arguments of gelu_with_backward and linear_dw.
constexpr size_t kX = 0, kDy = 1;
constexpr size_t kLinearDy = 1, kLinearAccBias = 3, kLinearWeight = 0, kLinearBias = 1;

TensorId At(const std::vector<TensorId>& arguments, size_t i) {
  return i < arguments.size() ? arguments[i] : kNoTensor;
}

// Whether the list contains a tensor in the same memory as `tensor`.
bool Mentions(const Program& program, const std::vector<TensorId>& arguments, TensorId tensor) {
  return std::any_of(arguments.begin(), arguments.end(), [&](TensorId id) {
    return id != kNoTensor && program.Root(id) == program.Root(tensor);
  });
}

bool MentionsAny(const Program& program, const std::vector<TensorId>& arguments,
                 const std::vector<TensorId>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [&](TensorId id) {
    return id != kNoTensor && Mentions(program, arguments, id);
  });
}

// Whether `node` may run before `later` instead of after it.
bool MayPass(const Program& program, const Node& node, const Node& later) {
  return !MentionsAny(program, node.inputs, later.outputs) &&
         !MentionsAny(program, node.outputs, later.outputs) &&
         !MentionsAny(program, node.outputs, later.inputs);
}

// Positions in the schedule of an activation, of its gradient, and of the readers between them.
struct Match {
  size_t forward, backward;  // `backward` is the last node of the match
  std::vector<size_t> readers;
};

std::optional<Match> MatchAt(const Program& program, size_t backward, const Activation& kind) {
  const std::vector<Node>& nodes = program.nodes();
  const Node& gradient = nodes[backward];
  size_t forward = backward;
  do {
    if (forward-- == 0 || nodes[forward].phase == graph::Phase::kForward) return std::nullopt;
  } while (nodes[forward].phase != graph::Phase::kRecompute ||
           nodes[forward].op->name != kind.forward ||
           nodes[forward].attributes != gradient.attributes ||
           At(nodes[forward].inputs, kX) != At(gradient.inputs, kX));
  if (program.tensor(program.Root(nodes[forward].outputs[0])).persistent) return std::nullopt;

  // Collects the nodes that must move down to the gradient: the activation, and every node that
  // reads it or its codes.
  Match match{forward, backward, {}};
  std::vector<size_t> waiting = {forward};
  std::vector<TensorId> made = {nodes[forward].outputs[0]};
  for (size_t i = forward + 1; i < backward; ++i) {
    if (MentionsAny(program, nodes[i].inputs, made)) {
      match.readers.push_back(i);
      waiting.push_back(i);
      if (nodes[i].op->name == "quantize") {
        made.insert(made.end(), nodes[i].outputs.begin(), nodes[i].outputs.end());
      }
      continue;
    }
    for (size_t earlier : waiting) {
      if (!MayPass(program, nodes[i], nodes[earlier])) return std::nullopt;
    }
  }
  for (size_t earlier : match.readers) {
    if (!MayPass(program, gradient, nodes[earlier])) return std::nullopt;
  }
  return match;
}

void Apply(Program& program, const Match& match, const Activation& kind) {
  std::vector<Node>& nodes = program.mutable_nodes();
  Node both = std::move(nodes[match.backward]);
  both.op = &OpRegistry::Get().Require(kind.both);
  both.made_by = "fuse";
  both.outputs.insert(both.outputs.begin(), nodes[match.forward].outputs[0]);
  both.outputs.resize(both.op->outputs.size() - both.op->finds_largest.size(), kNoTensor);

  MoveAfter(nodes, match.forward, match.readers, std::move(both));
}

// The node that writes `dy` of the linear_dw at position `linear`, if that node can also sum the
// columns of dy.
std::optional<size_t> MakerOfBias(const Program& program, size_t linear) {
  const std::vector<Node>& nodes = program.nodes();
  const Node& dw = nodes[linear];
  const TensorId dbias = At(dw.outputs, kLinearBias);
  if (dw.op->name != "linear_dw" || dbias == kNoTensor) return std::nullopt;
  if (At(dw.outputs, kLinearWeight) == kNoTensor)
    return std::nullopt;  // only the column sums read
                          // dy
  const TensorId dy = dw.inputs[kLinearDy];
  for (size_t i = linear; i-- > 0;) {
    const Node& node = nodes[i];
    if (Mentions(program, node.outputs, dy)) {
      const bool backward = node.op->name == "gelu_backward" && node.outputs[0] == dy;
      const bool both = node.op->name == "gelu_with_backward" && At(node.outputs, 1) == dy &&
                        At(node.outputs, 2) == kNoTensor;
      if (backward || both) return i;
      return std::nullopt;
    }
    for (TensorId id : {dbias, At(dw.inputs, kLinearAccBias)}) {
      if (id == kNoTensor) continue;
      if (Mentions(program, node.inputs, id) || Mentions(program, node.outputs, id)) {
        return std::nullopt;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

int FuseRecomputedActivations(Program& program) {
  return RewriteNodes(program, [&] {
    const size_t last = program.nodes().size() - 1;
    for (const Activation& kind : kActivations) {
      if (program.nodes()[last].op->name != kind.backward) continue;
      const std::optional<Match> match = MatchAt(program, last, kind);
      if (match) Apply(program, *match, kind);
      return match.has_value();
    }
    return false;
  });
}

int FuseBiasGradients(Program& program) {
  int moved = 0;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const std::optional<size_t> maker = MakerOfBias(program, i);
    if (!maker) continue;
    Node& node = program.mutable_nodes()[*maker];
    Node& linear = program.mutable_nodes()[i];
    if (node.op->name == "gelu_backward") {
      node.op = &OpRegistry::Get().Require("gelu_with_backward");
      node.made_by = "fuse";
      node.outputs.insert(node.outputs.begin(), kNoTensor);
    }
    node.inputs = {node.inputs[kX], node.inputs[kDy], At(linear.inputs, kLinearAccBias)};
    node.outputs = {node.outputs[0], node.outputs[1], linear.outputs[kLinearBias]};
    if (linear.inputs.size() > kLinearAccBias) linear.inputs[kLinearAccBias] = kNoTensor;
    linear.outputs[kLinearBias] = kNoTensor;
    linear.attributes.Set("bias", false);
    ++moved;
  }
  return moved;
}

}  // namespace plimsoll::ops
