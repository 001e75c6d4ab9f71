// A point on a stream that no later kernel overtakes.
#pragma once

#include <cuda_runtime_api.h>

namespace plimsoll::runtime {

// Enqueues a fence. Work after it begins when all work before it is done and its results are
// written. That holds even for a kernel that was launched to begin early (programmatic dependent
// launch) and doesn't wait.
void EnqueueFence(cudaStream_t stream);

}  // namespace plimsoll::runtime
