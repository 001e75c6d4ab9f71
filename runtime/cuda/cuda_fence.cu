// The fence is an empty kernel of one thread. It is launched in the ordinary way, so it begins when
// everything before it is done. A kernel after the fence begins no earlier than the fence ends,
// even if it may begin early. Bytes: none.
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
