#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ops/fusions.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

constexpr size_t kLargest = 1;  // quantize's input

// The tensor of which `id` is another shape, or `id` itself.
TensorId Whole(const Program& program, TensorId id) {
  const TensorId root = program.Root(id);
  return program.tensor(root).bytes() == program.tensor(id).bytes() ? root : id;
}

// The output of the op for the largest magnitude of its output `of`.
std::optional<size_t> LargestOutput(const graph::OpDef& op, size_t of) {
  const auto found = std::ranges::find(op.finds_largest, static_cast<int>(of));
  if (found == op.finds_largest.end()) return std::nullopt;
  return op.outputs.size() - static_cast<size_t>(op.finds_largest.end() - found);
}

}  // namespace

int FuseLargest(Program& program) {
  std::map<TensorId, std::pair<size_t, size_t>> makers;  // a node, and which of its outputs it is
  int fused = 0;
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    Node& node = program.mutable_nodes()[n];
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.op->view) makers[node.outputs[i]] = {n, i};
    }
    if (node.op->name != "quantize" || node.inputs[kLargest] != kNoTensor) continue;
    const TensorId x = Whole(program, node.inputs[0]);
    const auto made = makers.find(x);
    if (made == makers.end()) continue;
    const auto [at, output] = made->second;
    const auto largest = LargestOutput(*program.nodes()[at].op, output);
    if (!largest) continue;
    const std::string name = program.tensor(x).name + ".largest";
    Node& maker = program.mutable_nodes()[at];
    maker.attributes.Set("largest", true);
    maker.outputs.resize(maker.op->outputs.size(), kNoTensor);
    TensorId& found = maker.outputs[*largest];
    if (found == kNoTensor) {
      graph::Tensor tensor;
      tensor.name = program.FreshName(name);
      tensor.type = {DType::kFloat32, {}};
      found = program.AddTensor(std::move(tensor));
    }
    program.mutable_nodes()[n].inputs[kLargest] = found;
    ++fused;
  }
  return fused;
}

}  // namespace plimsoll::ops
