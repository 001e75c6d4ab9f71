#include "gpu/installation.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <fmt/format.h>

namespace plimsoll::gpu {
namespace {

// The text of a version number. cuBLAS, cuDNN and NCCL encode versions alike: 91900 is 9.19.0.
std::string VersionText(size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// The version of NCCL found at run time, which a program with several GPUs would use. This program
// is not linked with NCCL here.
std::string FindNccl() {
  void* library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return "";
  const auto get_version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  int version = 0;
  const bool found = get_version != nullptr && get_version(&version) == 0;
  dlclose(library);
  return found ? VersionText(static_cast<size_t>(version)) : "";
}

}  // namespace

const char* BuiltArchitectures() { return PLIMSOLL_CUDA_ARCHITECTURES; }

Installation FindInstallation() {
  Installation result;
  result.cuda = true;
  result.architectures = BuiltArchitectures();
  cudaRuntimeGetVersion(&result.runtime_version);
  cudaDriverGetVersion(&result.driver_version);
  result.libraries = {
      {"cuBLASLt", VersionText(cublasLtGetVersion()), VersionText(CUBLAS_VERSION)},
      {"cuDNN", VersionText(cudnnGetVersion()), VersionText(CUDNN_VERSION)},
      {"NCCL", FindNccl(), ""},
  };
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    result.problem = cudaGetErrorString(status);
    (void)cudaGetLastError();  // clears the error for later calls
    return result;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties = {};
    char bus_id[32] = "";
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess ||
        cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), i) != cudaSuccess) {
      (void)cudaGetLastError();
      continue;
    }
    result.gpus.push_back({properties.name,
                           bus_id,
                           {properties.major, properties.minor},
                           properties.multiProcessorCount,
                           static_cast<int64_t>(properties.totalGlobalMem)});
  }
  return result;
}

std::string FirstBusId() {
  char bus_id[32] = "";
  if (cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0) == cudaSuccess) return bus_id;
  (void)cudaGetLastError();
  return "";
}

}  // namespace plimsoll::gpu
