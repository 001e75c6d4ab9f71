#include "ops/norms/batch_norm_fusion.h"

#include <map>
#include <utility>
#include <vector>

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

// Arguments of the two ops.
constexpr size_t kX = 1, kMean = 2;                    // of batch_norm_backward
constexpr size_t kDx = 0, kDmean = 1, kDvariance = 2;  // its results
constexpr size_t kOfX = 0, kOfMean = 1, kOfDmean = 2, kOfDvariance = 3, kOfAcc = 4;

TensorId At(const std::vector<TensorId>& arguments, size_t i) {
  return i < arguments.size() ? arguments[i] : kNoTensor;
}

// Whether `second` takes up all that `first` gives it, which nothing else reads.
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

}  // namespace

int FuseBatchNormGradients(Program& program) {
  std::map<TensorId, int> readers;  // of each tensor's memory
  for (const Node& node : program.nodes()) {
    for (const TensorId id : node.inputs) {
      if (id != kNoTensor) ++readers[program.Root(id)];
    }
  }
  std::vector<Node> nodes = std::exchange(program.mutable_nodes(), {});
  int joined = 0;
  for (Node& node : nodes) {
    std::vector<Node>& done = program.mutable_nodes();
    if (done.empty() || !Match(program, readers, done.back(), node)) {
      done.push_back(std::move(node));
      continue;
    }
    Node& both = done.back();
    both.attributes.Set("through_statistics", true);
    both.outputs[kDx] = node.outputs[0];
    both.outputs[kDmean] = both.outputs[kDvariance] = kNoTensor;
    both.made_by = "fuse";
    ++joined;
  }
  return joined;
}

}  // namespace plimsoll::ops
