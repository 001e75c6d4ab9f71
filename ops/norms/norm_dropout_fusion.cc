#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/dropout_draws.h"
#include "ops/collectives/collective.h"
#include "ops/elementwise/dropout.h"
#include "ops/fusions.h"
#include "ops/rewrite_nodes.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

// For each tensor that owns memory, the number of times that nodes read it.
std::vector<int32_t> CountReaders(const Program& program) {
  std::vector<int32_t> readers(program.tensors().size(), 0);
  for (const Node& node : program.nodes()) {
    for (TensorId id : node.inputs) {
      if (id != kNoTensor) ++readers[program.Root(id)];
    }
  }
  return readers;
}

bool ReadOnce(const Program& program, const std::vector<int32_t>& readers, TensorId id) {
  const TensorId root = program.Root(id);
  return readers[root] == 1 && !program.tensor(root).persistent;
}

// Whether draw i belongs to element i. Dropout of scores, or of a rank's columns, numbers its draws
// differently (ops/elementwise/dropout.h). On a GPU norms draw for complete Philox blocks, so a
// rank's rows must begin with one.
bool IsElementwiseDropout(const Program& program, const Node& node) {
  if (node.op->name != "dropout" || DropsScores(node.attributes)) return false;
  if (!node.attributes.Has("axis")) return true;
  return !DropsPartOfColumns(node.attributes) &&
         program.tensor(node.inputs[0]).type.shape.elements() % kDrawsOfBlock == 0;
}

// Adds the dropout to the node. The node's op must allow dropout: its last input is the rng of the
// dropout. The node must not have a dropout yet.
void TakeDropout(Node& node, const Node& dropout) {
  node.inputs.resize(node.op->inputs.size() - 1, kNoTensor);
  node.inputs.push_back(dropout.inputs[1]);
  for (const auto& [name, value] : dropout.attributes.entries()) node.attributes.Set(name, value);
  node.made_by = "fuse";
}

bool TakesDropout(const Node& node) { return node.inputs.size() < node.op->inputs.size(); }

// Fuses the last node, if it adds the result of the dropout before it.
bool TakeTermDropout(Program& program, const std::vector<int32_t>& readers) {
  std::vector<Node>& nodes = program.mutable_nodes();
  if (nodes.size() < 2) return false;
  Node& norm = nodes.back();
  const Node& dropout = nodes[nodes.size() - 2];
  if (norm.op->name != "add_layer_norm" && norm.op->name != "add_rms_norm") return false;
  if (!IsElementwiseDropout(program, dropout) || dropout.phase != norm.phase ||
      !TakesDropout(norm)) {
    return false;
  }
  const TensorId dropped = dropout.outputs[0];
  if (!ReadOnce(program, readers, dropped)) return false;
  // The dropped term becomes input 1; sums have the same bits in either order.
  if (norm.inputs[0] == dropped) std::swap(norm.inputs[0], norm.inputs[1]);
  if (norm.inputs[1] != dropped) return false;
  Node fused = norm;
  fused.inputs[1] = dropout.inputs[0];
  TakeDropout(fused, dropout);
  MoveAfter(nodes, nodes.size() - 2, {}, std::move(fused));
  return true;
}

// Fuses the last node, if it drops the result of a norm's gradient.
bool TakeGradientDropout(Program& program, const std::vector<int32_t>& readers) {
  std::vector<Node>& nodes = program.mutable_nodes();
  if (nodes.size() < 2 || !IsElementwiseDropout(program, nodes.back())) return false;
  size_t i = nodes.size() - 2;
  while (i > 0 && (IsCollective(*nodes[i].op) || IsCollectiveDone(*nodes[i].op))) --i;
  Node& gradient = nodes[i];
  const std::string& name = gradient.op->name;
  if (name != "layer_norm_backward" && name != "rms_norm_backward") return false;
  const Node dropout = nodes.back();
  const TensorId dx = gradient.outputs[0];
  if (dx == kNoTensor || dropout.inputs[0] != dx || dropout.phase != gradient.phase ||
      !TakesDropout(gradient) || program.tensor(program.Root(dropout.outputs[0])).persistent) {
    return false;
  }
  TakeDropout(gradient, dropout);
  if (ReadOnce(program, readers, dx)) gradient.outputs[0] = kNoTensor;
  const graph::OpDef& op = *gradient.op;  // `dropped` is the last output before the largest
                                          // magnitudes
  gradient.outputs.resize(op.outputs.size() - op.finds_largest.size() - 1, kNoTensor);
  gradient.outputs.push_back(dropout.outputs[0]);
  nodes.pop_back();
  return true;
}

}  // namespace

int FuseNormDropout(Program& program) {
  const std::vector<int32_t> readers = CountReaders(program);
  return RewriteNodes(program, [&] {
    return TakeTermDropout(program, readers) || TakeGradientDropout(program, readers);
  });
}

}  // namespace plimsoll::ops
