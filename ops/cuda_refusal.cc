#include "ops/cuda_refusal.h"

#include <map>

#include "base/error.h"

namespace plimsoll::ops {
namespace {

using ReasonFunction = std::string (*)(const graph::OpCall&);

std::map<std::string, ReasonFunction, std::less<>>& Reasons() {
  static std::map<std::string, ReasonFunction, std::less<>> reasons;
  return reasons;
}

}  // namespace

std::string CudaRefusal(const graph::OpCall& call) {
  const auto found = Reasons().find(call.op.name);
  return found == Reasons().end() ? "" : found->second(call);
}

bool HasCudaRefusal(std::string_view op) { return Reasons().contains(op); }

void CheckCudaRuns(const graph::OpCall& call) {
  const std::string reason = CudaRefusal(call);
  if (!reason.empty()) throw UserError(reason);
}

CudaRefusalRegistration::CudaRefusalRegistration(std::string op, ReasonFunction reason) {
  if (!Reasons().emplace(op, reason).second) {
    throw InternalError("op '" + op + "' has two reasons without a CUDA kernel");
  }
}

}  // namespace plimsoll::ops
