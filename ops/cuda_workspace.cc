#include "ops/cuda_workspace.h"

#include <functional>
#include <map>
#include <utility>

#include "base/error.h"

namespace plimsoll::ops {
namespace {

using BytesFunction = std::function<int64_t(const graph::OpCall&, ComputeCapability)>;

std::map<std::string, BytesFunction, std::less<>>& Functions() {
  static std::map<std::string, BytesFunction, std::less<>> functions;
  return functions;
}

void Register(const std::string& op, BytesFunction bytes) {
  if (!Functions().emplace(op, std::move(bytes)).second) {
    throw InternalError("op '" + op + "' has two CUDA workspaces");
  }
}

}  // namespace

int64_t CudaWorkspaceBytes(const graph::OpCall& call, ComputeCapability gpu) {
  auto found = Functions().find(call.op.name);
  return found == Functions().end() ? 0 : found->second(call, gpu);
}

CudaWorkspaceRegistration::CudaWorkspaceRegistration(std::string op,
                                                     int64_t (*bytes)(const graph::OpCall&)) {
  Register(op, [bytes](const graph::OpCall& call, ComputeCapability) { return bytes(call); });
}

CudaWorkspaceRegistration::CudaWorkspaceRegistration(std::string op,
                                                     int64_t (*bytes)(const graph::OpCall&,
                                                                      ComputeCapability)) {
  Register(op, bytes);
}

}  // namespace plimsoll::ops
