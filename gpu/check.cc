#include "gpu/check.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll::gpu {
namespace {

// What the user can do about the error; nullptr if the machine isn't at fault.
const char* WayOut(cudaError_t status) {
  switch (status) {
    case cudaErrorNoDevice:
      return "no NVIDIA GPU is visible to this process (see nvidia-smi and CUDA_VISIBLE_DEVICES); "
             "device: cpu runs without one";
    case cudaErrorInsufficientDriver:
      return "there is no NVIDIA driver, or it is older than the CUDA version of this build (see "
             "nvidia-smi); install a newer driver, or use device: cpu";
    case cudaErrorNoKernelImageForDevice:
      return "this build has no code for this GPU; build with "
             "--repo_env=CUDA_ARCHITECTURES=… naming its compute capability";
    case cudaErrorMemoryAllocation:
      return "the GPU's memory is taken, perhaps by another process (see nvidia-smi); free it, or "
             "set a smaller memory.budget";
    case cudaErrorDevicesUnavailable:
      return "the GPU is in use by another process alone (see nvidia-smi)";
    default:
      return nullptr;
  }
}

}  // namespace

void Check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  const char* way_out = WayOut(status);
  const std::string message =
      fmt::format("{}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
  if (way_out != nullptr) throw UserError(fmt::format("device: {}: {}", message, way_out));
  throw InternalError(message);
}

void Check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw InternalError(fmt::format("{}: {}", call, cublasLtGetStatusString(status)));
}

void Check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char details[512] = "";
  cudnnGetLastErrorString(details, sizeof(details));
  throw InternalError(fmt::format("{}: {} {}", call, cudnnGetErrorString(status), details));
}

void CheckLaunch(const char* kernel) { Check(cudaGetLastError(), kernel); }

}  // namespace plimsoll::gpu
