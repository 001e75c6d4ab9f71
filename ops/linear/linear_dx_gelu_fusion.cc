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

bool Mentions(const Program& program, const std::vector<TensorId>& arguments, TensorId root) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](TensorId id) { return id != kNoTensor && program.Root(id) == root; });
}

// The node that reads the memory of `id`, if there is exactly one.
std::optional<size_t> OnlyReader(const Program& program, TensorId id) {
  std::optional<size_t> reader;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    if (!Mentions(program, program.nodes()[i].inputs, program.Root(id))) continue;
    if (reader) return std::nullopt;
    reader = i;
  }
  return reader;
}

// The index of the gelu_backward that can be fused with the linear_dx at this position.
std::optional<size_t> MatchAt(const Program& program, size_t product) {
  const std::vector<Node>& nodes = program.nodes();
  const Node& dx = nodes[product];
  if (dx.op->name != "linear_dx" || (dx.inputs.size() > 2 && dx.inputs[2] != kNoTensor)) {
    return std::nullopt;
  }
  const TensorId gradient = dx.outputs[0];
  const graph::Tensor& tensor = program.tensor(gradient);
  if (tensor.persistent || tensor.alias || !graph::IsLowPrecision(tensor.type.dtype)) {
    return std::nullopt;
  }
  const std::optional<size_t> reader = OnlyReader(program, gradient);
  if (!reader || *reader < product) return std::nullopt;
  const Node& gelu = nodes[*reader];
  if (gelu.op->name != "gelu_backward" || gelu.inputs[1] != gradient ||
      gelu.attributes.GetWord("approximate") != "tanh" || gelu.phase != dx.phase) {
    return std::nullopt;
  }
  // The fused op reads dy and weight later than linear_dx did, so no node in between may write
  // them.
  for (size_t i = product + 1; i < *reader; ++i) {
    for (TensorId id : dx.inputs) {
      if (id != kNoTensor && Mentions(program, nodes[i].outputs, program.Root(id))) {
        return std::nullopt;
      }
    }
  }
  return reader;
}

void Apply(Program& program, size_t product, size_t gelu) {
  std::vector<Node>& nodes = program.mutable_nodes();
  Node fused = nodes[product];
  fused.op = &graph::OpRegistry::Get().Require("linear_dx_gelu");
  fused.inputs = {fused.inputs[0], fused.inputs[1], nodes[gelu].inputs[0]};
  fused.outputs = nodes[gelu].outputs;
  fused.made_by = "fuse";
  nodes[gelu] = std::move(fused);
  nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(product));
}

}  // namespace

int FuseGeluGradient(Program& program) {
  int replaced = 0;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    if (const std::optional<size_t> gelu = MatchAt(program, i)) {
      Apply(program, i, *gelu);
      ++replaced;
    }
  }
  return replaced;
}

}  // namespace plimsoll::ops
