#include "gpu/first_device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "base/error.h"
#include "gpu/architectures.h"
#include "gpu/check.h"

namespace plimsoll::gpu {

void UseFirstDevice() {
  int devices = 0;
  Check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (devices == 0) Check(cudaErrorNoDevice, "cudaGetDeviceCount");
  cudaDeviceProp properties = {};
  Check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  const int major = properties.major, minor = properties.minor;
  if (!HasCodeFor(PLIMSOLL_CUDA_ARCHITECTURES, major, minor)) {
    throw UserError(fmt::format(
        "device: this build has no code for the {} (compute capability {}.{}; it has: {}); build "
        "with --config=cuda --repo_env=CUDA_ARCHITECTURES={}, or use device: cpu",
        properties.name, major, minor, PLIMSOLL_CUDA_ARCHITECTURES, ArchitectureOf(major, minor)));
  }
  Check(cudaSetDevice(0), "cudaSetDevice");
}

}  // namespace plimsoll::gpu
