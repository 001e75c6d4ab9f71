// The largest magnitude of a tensor: an integer maximum of the bits of |x| as float32, which keeps
// infinity and NaN (ops/linear/code_scale.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "graph/dtype.h"

namespace plimsoll::ops {

// Enqueues largest = max over all n elements of x. x is float32, bf16 or fp16, at a multiple of
// 16 bytes.
void LargestMagnitude(cudaStream_t stream, graph::DType dtype, const void* x, int64_t n,
                      int multiprocessors, uint32_t* largest);

}  // namespace plimsoll::ops
