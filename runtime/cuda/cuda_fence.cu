// An empty kernel of one thread. It is launched in the ordinary way, so it begins when everything
// before it is done; a kernel behind it that may begin early begins no earlier than its end. Bytes:
// none.
#include "gpu/check.h"
#include "runtime/cuda/cuda_fence.h"

namespace plimsoll::runtime {
namespace {

__global__ void FenceKernel() {}

}  // namespace

void EnqueueFence(cudaStream_t stream) {
  FenceKernel<<<1, 1, 0, stream>>>();
  gpu::CheckLaunch("fence");
}

}  // namespace plimsoll::runtime
