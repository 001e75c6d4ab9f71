#include "gpu/capability.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "base/error.h"
#include "gpu/architectures.h"
#include "gpu/check.h"
#include "gpu/installation.h"

namespace plimsoll::gpu {

ComputeCapability CurrentCapability() {
  int device = 0;
  ComputeCapability capability;
  Check(cudaGetDevice(&device), "cudaGetDevice");
  Check(cudaDeviceGetAttribute(&capability.major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  Check(cudaDeviceGetAttribute(&capability.minor, cudaDevAttrComputeCapabilityMinor, device),
        "cudaDeviceGetAttribute");
  return KernelCapability(BuiltArchitectures(), capability, ActedCapability().value_or(capability));
}

bool OnHopper() { return CurrentCapability().is_hopper(); }

void AllowSharedMemory(const void* kernel, int64_t bytes) {
  if (const auto acted = ActedCapability()) {
    cudaFuncAttributes attributes{};
    Check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
    const int64_t all = bytes + static_cast<int64_t>(attributes.sharedSizeBytes);
    if (all > acted->shared_bytes()) {
      throw InternalError(
          fmt::format("a kernel asks for {} bytes of shared memory; compute capability {} has {}",
                      all, acted->text(), acted->shared_bytes()));
    }
  }
  Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
}

}  // namespace plimsoll::gpu
