#include "tests/support/cuda_ranks.h"

#include <cuda_runtime_api.h>

#include "gpu/check.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll {

std::string WhyNoCudaDeviceForEachRank(runtime::World& world) {
  std::string why = WhyNoCudaDevice();
  if (why.empty()) {
    int devices = 0;
    gpu::Check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    if (devices < world.local_size()) {
      why = std::to_string(world.local_size()) + " ranks on this host, and " +
            std::to_string(devices) + " GPUs";
    }
  }
  for (const std::string& reason : world.Gather(why)) {
    if (!reason.empty()) return "no CUDA device for every rank: " + reason;
  }
  return "";
}

}  // namespace plimsoll
