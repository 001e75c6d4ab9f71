// A place on a stream that no later kernel overtakes.
#pragma once

#include <cuda_runtime_api.h>

namespace plimsoll::runtime {

// What is enqueued behind begins when all that is ahead is done and its results are written, even a
// kernel that was launched so as to begin early (programmatic dependent launch) and doesn't wait.
void EnqueueFence(cudaStream_t stream);

}  // namespace plimsoll::runtime
