#include "ops/cuda_kernel.h"

#include <map>

#include "base/error.h"

namespace plimsoll::ops {
namespace {

std::map<std::string, CudaKernel, std::less<>>& Kernels() {
  static std::map<std::string, CudaKernel, std::less<>> kernels;
  return kernels;
}

}  // namespace

CudaKernelRegistration::CudaKernelRegistration(CudaKernel kernel) {
  std::string name = kernel.op;
  if (!Kernels().emplace(name, std::move(kernel)).second) {
    throw InternalError("op '" + name + "' has two CUDA kernels");
  }
}

const CudaKernel* FindCudaKernel(std::string_view op) {
  auto found = Kernels().find(op);
  return found == Kernels().end() ? nullptr : &found->second;
}

}  // namespace plimsoll::ops
