#include "checkpointing/view.h"

namespace plimsoll::checkpointing {

std::vector<int> FindViewNodes(const graph::Program& program) {
  std::vector<int> nodes(program.tensors().size(), -1);
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    const graph::Node& node = program.nodes()[n];
    if (node.op->view) nodes[node.outputs[0]] = static_cast<int>(n);
  }
  return nodes;
}

graph::TensorId AddViewLike(graph::Program& program, graph::TensorId view, graph::TensorId base,
                            const std::string& suffix) {
  graph::Tensor tensor = program.tensor(view);
  tensor.name = program.FreshName(tensor.name + suffix);
  tensor.place = program.tensor(base).place;
  tensor.alias->base = base;
  return program.AddTensor(std::move(tensor));
}

}  // namespace plimsoll::checkpointing
