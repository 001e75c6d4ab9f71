#include "runtime/workspaces.h"

#include <string>

#include "ops/kernel.h"

namespace plimsoll::runtime {

bool AddWorkspaces(graph::Program& program, int threads) {
  bool changed = false;
  for (graph::Node& node : program.mutable_nodes()) {
    const ops::CpuKernel* kernel = ops::FindCpuKernel(node.op->name);
    if (kernel == nullptr || kernel->workspace == nullptr) continue;
    const graph::Program::Call call = program.CallOf(node);
    const int64_t bytes = kernel->workspace(call.get(), threads);
    if (bytes <= 0) continue;
    if (node.workspace != graph::kNoTensor && program.tensor(node.workspace).bytes() >= bytes) {
      continue;
    }
    const std::string stem =
        (node.scope.empty() ? "" : node.scope + ".") + node.op->name + ".workspace";
    graph::Tensor tensor;
    tensor.name = program.FreshName(stem);
    tensor.type = {graph::DType::kFloat32, graph::Shape{(bytes + 3) / 4}};
    tensor.role = graph::Role::kWorkspace;
    node.workspace = program.AddTensor(std::move(tensor));
    changed = true;
  }
  return changed;
}

}  // namespace plimsoll::runtime
