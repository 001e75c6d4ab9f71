#include "runtime/workspaces.h"

#include <string>

#include "ops/cuda_workspace.h"
#include "ops/kernel.h"

namespace plimsoll::runtime {

int64_t WorkspaceBytes(const graph::OpCall& call, const PlannedDevice& device) {
  if (device.kind == DeviceKind::kCuda) return ops::CudaWorkspaceBytes(call, device.gpu);
  const ops::CpuKernel* kernel = ops::FindCpuKernel(call.op.name);
  return kernel == nullptr || kernel->workspace == nullptr
             ? 0
             : kernel->workspace(call, device.threads);
}

bool AddWorkspaces(graph::Program& program, const PlannedDevice& device) {
  bool changed = false;
  for (graph::Node& node : program.mutable_nodes()) {
    const graph::Program::Call call = program.CallOf(node);
    const int64_t bytes = WorkspaceBytes(call.get(), device);
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
