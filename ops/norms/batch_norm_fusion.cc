#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ops/fusions.h"
#include "ops/norms/batch_norm_attributes.h"
#include "ops/norms/positive_bits.h"
#include "ops/rewrite_nodes.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

// Indices of the ops' arguments.
constexpr size_t kResidual = 5;                        // an input of batch_norm
constexpr size_t kY = 0, kPositive = 1;                // outputs of batch_norm; the second exists
                                                       // with a residual
constexpr size_t kX = 1, kMean = 2;                    // inputs of batch_norm_backward
constexpr size_t kDx = 0, kDmean = 1, kDvariance = 2;  // outputs of batch_norm_backward
constexpr size_t kOfX = 0, kOfMean = 1, kOfDmean = 2, kOfDvariance = 3, kOfAcc = 4;

TensorId At(const std::vector<TensorId>& arguments, size_t i) {
  return i < arguments.size() ? arguments[i] : kNoTensor;
}

// Whether `second` reads all results that it can use of `first`, and no other node reads them.
bool Match(const Program& program, const std::map<TensorId, int>& readers, const Node& first,
           const Node& second) {
  if (first.op->name != "batch_norm_backward" ||
      second.op->name != "batch_norm_statistics_backward" ||
      At(second.inputs, kOfX) != first.inputs[kX] ||
      At(second.inputs, kOfMean) != first.inputs[kMean]) {
    return false;
  }
  for (const auto& [given, taken] :
       {std::pair{kDx, kOfAcc}, {kDmean, kOfDmean}, {kDvariance, kOfDvariance}}) {
    const TensorId tensor = At(first.outputs, given);
    if (tensor == kNoTensor || At(second.inputs, taken) != tensor) return false;
    if (program.tensor(program.Root(tensor)).persistent) return false;
    if (readers.at(program.Root(tensor)) != 1) return false;
  }
  return true;
}

// Maps each tensor that owns memory to the number of node inputs in that memory.
std::map<TensorId, int> Readers(const Program& program) {
  std::map<TensorId, int> readers;
  for (const Node& node : program.nodes()) {
    for (const TensorId id : node.inputs) {
      if (id != kNoTensor) ++readers[program.Root(id)];
    }
  }
  return readers;
}

// If `next` is the add or relu after the norm in y = relu(norm + residual), and is the only reader
// of the norm's result: fuses it into the norm, and returns true.
bool TakeUp(const Program& program, const std::map<TensorId, int>& readers, Node& norm,
            const Node& next) {
  if (norm.op->name != "batch_norm" || AppliesRelu(norm.attributes)) return false;
  const TensorId y = norm.outputs[kY];
  if (program.tensor(program.Root(y)).persistent || !readers.contains(program.Root(y)) ||
      readers.at(program.Root(y)) != 1) {
    return false;
  }
  if (next.op->name == "relu" && next.inputs[0] == y) {
    norm.attributes.Set("relu", true);
  } else if (next.op->name == "add" && At(norm.inputs, kResidual) == kNoTensor &&
             (next.inputs[0] == y || next.inputs[1] == y)) {
    norm.inputs.resize(kResidual + 1, kNoTensor);
    norm.inputs[kResidual] = next.inputs[next.inputs[0] == y ? 1 : 0];
    norm.outputs.resize(kPositive + 1, kNoTensor);
  } else {
    return false;
  }
  norm.outputs[kY] = next.outputs[0];
  norm.made_by = "fuse";
  return true;
}

// Lets the norm that computes y = relu(norm + residual) also return where y is positive, and
// returns the tensor of these bits; kNoTensor if another op computes y.
TensorId PositiveBitsOf(Program& program, TensorId y) {
  std::vector<Node>& nodes = program.mutable_nodes();
  const auto norm = std::ranges::find_if(nodes, [&](const Node& node) {
    return node.op->name == "batch_norm" && node.outputs[kY] == y;
  });
  if (norm == nodes.end() || !AppliesRelu(norm->attributes) ||
      At(norm->inputs, kResidual) == kNoTensor) {
    return kNoTensor;
  }
  TensorId& bits = norm->outputs[kPositive];
  if (bits == kNoTensor) {
    graph::Tensor tensor;
    tensor.name = program.FreshName(program.tensor(y).name + ".positive");
    tensor.type = PositiveBits(program.tensor(y).type.shape);
    bits = program.AddTensor(std::move(tensor));
  }
  return bits;
}

}  // namespace

int FuseBatchNormResiduals(Program& program) {
  const std::map<TensorId, int> readers = Readers(program);
  return RewriteNodes(program, [&] {
    std::vector<Node>& done = program.mutable_nodes();
    if (done.size() < 2 || !TakeUp(program, readers, done[done.size() - 2], done.back())) {
      return false;
    }
    done.pop_back();
    return true;
  });
}

int FuseBatchNormGradients(Program& program) {
  const std::map<TensorId, int> readers = Readers(program);
  return RewriteNodes(program, [&] {
    std::vector<Node>& done = program.mutable_nodes();
    if (done.size() < 2 || !Match(program, readers, done[done.size() - 2], done.back())) {
      return false;
    }
    Node& both = done[done.size() - 2];
    both.attributes.Set("through_statistics", true);
    both.outputs[kDx] = done.back().outputs[0];
    both.outputs[kDmean] = both.outputs[kDvariance] = kNoTensor;
    both.made_by = "fuse";
    done.pop_back();
    return true;
  });
}

int FuseBatchNormResidualGradients(Program& program) {
  return RewriteNodes(program, [&] {
    std::vector<Node>& done = program.mutable_nodes();
    if (done.size() < 2) return false;
    const Node &relu = done[done.size() - 2], &norm = done.back();
    if (relu.op->name != "relu_backward" || norm.op->name != "batch_norm_backward" ||
        norm.inputs[0] != relu.outputs[0] || !GoesThroughStatistics(norm.attributes) ||
        AppliesRelu(norm.attributes)) {
      return false;
    }
    const TensorId positive = PositiveBitsOf(program, relu.inputs[0]);
    if (positive == kNoTensor) return false;
    Node both = norm;
    both.op = graph::OpRegistry::Get().Find("batch_norm_residual_backward");
    both.attributes = {{"eps", norm.attributes.GetReal("eps")}};
    both.inputs = {relu.inputs[1], positive};
    for (size_t i = kX; i < 8; ++i) both.inputs.push_back(At(norm.inputs, i));
    both.outputs = {relu.outputs[0], norm.outputs[kDx], At(norm.outputs, 3), At(norm.outputs, 4)};
    both.made_by = "fuse";
    done.pop_back();
    done.back() = std::move(both);
    return true;
  });
}

}  // namespace plimsoll::ops
