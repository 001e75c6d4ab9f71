#include "ops/cuda_workspace.h"

#include <map>

#include "base/error.h"

namespace plimsoll::ops {
namespace {

using BytesFunction = int64_t (*)(const graph::OpCall&);

std::map<std::string, BytesFunction, std::less<>>& Functions() {
  static std::map<std::string, BytesFunction, std::less<>> functions;
  return functions;
}

}  // namespace

int64_t CudaWorkspaceBytes(const graph::OpCall& call) {
  auto found = Functions().find(call.op.name);
  return found == Functions().end() ? 0 : found->second(call);
}

CudaWorkspaceRegistration::CudaWorkspaceRegistration(std::string op, BytesFunction bytes) {
  if (!Functions().emplace(op, bytes).second) {
    throw InternalError("op '" + op + "' has two CUDA workspaces");
  }
}

}  // namespace plimsoll::ops
