#include "tests/support/needs_cuda.h"

#include <cuda_runtime_api.h>

namespace plimsoll {

std::string WhyNoCudaDevice() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return devices > 0 ? "" : "none is visible";
}

}  // namespace plimsoll
