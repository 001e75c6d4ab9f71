#include <algorithm>
#include <optional>
#include <vector>

#include "ops/fusions.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

// Arguments of linear_cross_entropy. x, weight, targets and scale are inputs 0 to 3 of all three
// ops.
constexpr size_t kOperands = 4, kBias = 4;
constexpr size_t kLoss = 0, kLse = 1;
// Arguments of linear_cross_entropy_backward.
constexpr size_t kBackwardLse = 4, kDloss = 5, kAccWeight = 6, kBackwardBias = 7, kAccBias = 8;
constexpr size_t kBackwardRng = 9, kTrainRng = 8;

TensorId At(const std::vector<TensorId>& arguments, size_t i) {
  return i < arguments.size() ? arguments[i] : kNoTensor;
}

// Whether the list contains a tensor in the memory of `root`.
bool Mentions(const Program& program, const std::vector<TensorId>& arguments, TensorId root) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](TensorId id) { return id != kNoTensor && program.Root(id) == root; });
}

// A loss and its only backward op, by their positions in the program.
struct Match {
  size_t forward;
  size_t backward;
  std::vector<size_t> moved;  // nodes between both that must run before the loss, in order
};

// The only reader of the tensor's memory, if there is exactly one.
std::optional<size_t> OnlyReader(const Program& program, TensorId id) {
  std::optional<size_t> reader;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    if (!Mentions(program, program.nodes()[i].inputs, program.Root(id))) continue;
    if (reader) return std::nullopt;
    reader = i;
  }
  return reader;
}

// The match at `forward`, if the pair may become one node at the position of the forward op.
std::optional<Match> MatchAt(const Program& program, size_t forward) {
  const std::vector<Node>& nodes = program.nodes();
  const Node& loss = nodes[forward];
  const TensorId lse = At(loss.outputs, kLse);
  if (loss.op->name != "linear_cross_entropy" || lse == kNoTensor) return std::nullopt;
  if (program.tensor(program.Root(lse)).persistent) return std::nullopt;
  const std::optional<size_t> reader = OnlyReader(program, lse);
  if (!reader || *reader < forward) return std::nullopt;
  const Node& backward = nodes[*reader];
  if (backward.op->name != "linear_cross_entropy_backward") return std::nullopt;
  if (At(backward.inputs, kBackwardLse) != lse) return std::nullopt;
  for (size_t i = 0; i < kOperands; ++i) {
    if (At(backward.inputs, i) != At(loss.inputs, i)) return std::nullopt;
  }
  if (At(backward.inputs, kBackwardBias) != At(loss.inputs, kBias)) return std::nullopt;

  // Goes up from the backward op, and collects the nodes on which its additional operands depend.
  Match match{forward, *reader, {}};
  std::vector<TensorId> needed;
  for (size_t i : {kDloss, kAccWeight, kAccBias}) {
    const TensorId id = At(backward.inputs, i);
    if (id != kNoTensor) needed.push_back(program.Root(id));
  }
  for (size_t i = *reader; i-- > forward;) {
    const Node& node = nodes[i];
    const bool makes_needed = std::any_of(needed.begin(), needed.end(), [&](TensorId root) {
      return Mentions(program, node.outputs, root);
    });
    if (!makes_needed) continue;
    if (i == forward) return std::nullopt;  // the operands depend on the loss
    match.moved.insert(match.moved.begin(), i);
    for (TensorId id : node.inputs) {
      if (id != kNoTensor) needed.push_back(program.Root(id));
    }
  }

  // Nodes that do not move must not write what moved nodes read, nor access what moved nodes write.
  const auto moves = [&](size_t i) {
    return i == *reader ||
           std::find(match.moved.begin(), match.moved.end(), i) != match.moved.end();
  };
  for (size_t i = forward + 1; i < *reader; ++i) {
    if (moves(i)) continue;
    for (size_t j = i + 1; j <= *reader; ++j) {
      if (!moves(j)) continue;
      for (TensorId id : nodes[j].inputs) {
        if (id == kNoTensor || id == lse) continue;
        if (Mentions(program, nodes[i].outputs, program.Root(id))) return std::nullopt;
      }
      for (TensorId id : nodes[j].outputs) {
        if (id == kNoTensor) continue;
        const TensorId root = program.Root(id);
        if (Mentions(program, nodes[i].inputs, root) || Mentions(program, nodes[i].outputs, root)) {
          return std::nullopt;
        }
      }
    }
  }
  return match;
}

void Apply(Program& program, const Match& match) {
  std::vector<Node>& nodes = program.mutable_nodes();
  const Node& backward = nodes[match.backward];
  Node train = nodes[match.forward];
  train.op = &graph::OpRegistry::Get().Require("linear_cross_entropy_train");
  train.made_by = "fuse";
  const TensorId bias = At(train.inputs, kBias);
  train.inputs.resize(kOperands);
  train.inputs.push_back(backward.inputs[kDloss]);
  train.inputs.push_back(At(backward.inputs, kAccWeight));
  if (bias != kNoTensor) {
    train.inputs.push_back(bias);
    train.inputs.push_back(At(backward.inputs, kAccBias));
  }
  if (const TensorId rng = At(backward.inputs, kBackwardRng); rng != kNoTensor) {
    train.inputs.resize(kTrainRng, kNoTensor);
    train.inputs.push_back(rng);
    train.attributes.Set("low_gradient", true);
    train.attributes.Set("key", backward.attributes.GetInt("key"));
  }
  train.outputs = {At(train.outputs, kLoss), At(backward.outputs, 0), At(backward.outputs, 1),
                   At(backward.outputs, 2)};

  std::vector<Node> first;
  for (size_t i : match.moved) {
    first.push_back(nodes[i]);
    first.back().phase = train.phase;
  }
  first.push_back(std::move(train));

  std::vector<Node> result(nodes.begin(), nodes.begin() + match.forward);
  result.insert(result.end(), first.begin(), first.end());
  for (size_t i = match.forward + 1; i < nodes.size(); ++i) {
    const bool gone = i == match.backward ||
                      std::find(match.moved.begin(), match.moved.end(), i) != match.moved.end();
    if (!gone) result.push_back(std::move(nodes[i]));
  }
  nodes = std::move(result);
}

}  // namespace

int FuseLossBackward(Program& program) {
  int replaced = 0;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    if (const std::optional<Match> match = MatchAt(program, i)) {
      Apply(program, *match);
      ++replaced;
    }
  }
  return replaced;
}

}  // namespace plimsoll::ops
