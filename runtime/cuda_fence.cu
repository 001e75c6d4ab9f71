// An empty kernel of one thread. It is launched in the ordinary way, so it begins when everything
// ahead is done; what may begin early behind it begins no earlier than it ends. Bytes: none.
#include "gpu/check.h"
#include "runtime/cuda_fence.h"

namespace plimsoll::runtime {
namespace {

__global__ void FenceKernel() {}

}  // namespace

void EnqueueFence(cudaStream_t stream) {
  FenceKernel<<<1, 1, 0, stream>>>();
  gpu::CheckLaunch("fence");
}

}  // namespace plimsoll::runtime
