#include "gpu/first_device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "base/error.h"
#include "gpu/architectures.h"
#include "gpu/check.h"
#include "gpu/nvml.h"

namespace plimsoll::gpu {
namespace {

// Throws for a missing driver or a driver that is too old. CUDA returns the same error for both.
[[noreturn]] void ThrowAboutDriver() {
  const Nvml* nvml = Nvml::Get();
  if (nvml == nullptr) {
    throw UserError("device: " + Nvml::problem() + "; install one, or use device: cpu");
  }
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  const auto text = [](int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  };
  throw UserError(
      fmt::format("device: the NVIDIA driver {} runs CUDA up to {}, and this build is of CUDA {}; "
                  "install a newer "
                  "driver, build with an older toolkit (CUDA_HOME), or use device: cpu",
                  nvml->driver_version(), text(nvml->cuda_version()), text(runtime)));
}

}  // namespace

void UseFirstDevice() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaErrorInsufficientDriver) ThrowAboutDriver();
  Check(status, "cudaGetDeviceCount");
  if (devices == 0) Check(cudaErrorNoDevice, "cudaGetDeviceCount");
  cudaDeviceProp properties = {};
  Check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  const ComputeCapability capability{properties.major, properties.minor};
  if (!HasCodeFor(PLIMSOLL_CUDA_ARCHITECTURES, capability)) {
    throw UserError(fmt::format(
        "device: this build has no code for the {} (compute capability {}; it has: {}); build "
        "with --config=cuda --repo_env=CUDA_ARCHITECTURES={}, or use device: cpu",
        properties.name, capability.text(), PLIMSOLL_CUDA_ARCHITECTURES,
        ArchitectureOf(capability)));
  }
  Check(cudaSetDevice(0), "cudaSetDevice");
}

}  // namespace plimsoll::gpu
