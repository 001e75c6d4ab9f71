// A point on a stream that no later kernel overtakes.
#pragma once

#include <cuda_runtime_api.h>

namespace plimsoll::runtime {

// Enqueues a fence. Work after it begins when all work before it is done and its results are
// written. Even a kernel that was launched to begin early (programmatic dependent launch) does not
// overtake it.
void EnqueueFence(cudaStream_t stream);

}  // namespace plimsoll::runtime
