#include "ops/kernel.h"

#include <map>

namespace plimsoll::ops {
namespace {

std::map<std::string, CpuKernel, std::less<>>& Kernels() {
  static std::map<std::string, CpuKernel, std::less<>> kernels;
  return kernels;
}

}  // namespace

CpuKernelRegistration::CpuKernelRegistration(CpuKernel kernel) {
  std::string name = kernel.op;
  if (!Kernels().emplace(name, std::move(kernel)).second) {
    throw InternalError("op '" + name + "' has two CPU kernels");
  }
}

const CpuKernel* FindCpuKernel(std::string_view op) {
  auto found = Kernels().find(op);
  return found == Kernels().end() ? nullptr : &found->second;
}

}  // namespace plimsoll::ops
