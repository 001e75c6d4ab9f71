// The matrix product of ops/cuda/products/gemm.h without a library, for the problems that cuBLASLt
// does not take: simple, right for any shape, stride and alignment, and slow.
#pragma once

#include "ops/cuda/products/gemm.h"

namespace plimsoll::ops {

void PlainGemm(cudaStream_t stream, const GemmProblem& problem, const GemmBuffers& buffers);

}  // namespace plimsoll::ops
