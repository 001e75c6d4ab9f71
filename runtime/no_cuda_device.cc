// runtime/cuda_device.h in builds without CUDA.
#include "base/error.h"
#include "runtime/cuda_device.h"

namespace plimsoll::runtime {

bool BuiltWithCuda() { return false; }

bool CudaVisible() { return false; }

std::unique_ptr<Device> MakeCudaDevice(ThreadPool&) {
  throw UserError(
      "device: cuda: this build has no CUDA; build with --config=cuda, or set device: cpu");
}

}  // namespace plimsoll::runtime
