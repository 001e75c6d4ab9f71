// The CUDA kernels of linear, linear_dx and linear_dw. Other ops use them, too, if their arguments
// have the same order and meaning: a convolution of single pixels is a matrix product.
//
// x[...,K] and dy[...,N] may have any number of dimensions before the last. Of a weight's
// dimensions, the first is N, the last K, and all others are 1.
#pragma once

#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

void Linear(const CudaContext& ctx);
void PrepareLinear(const CudaContext& ctx);
void LinearDx(const CudaContext& ctx);
void PrepareLinearDx(const CudaContext& ctx);
void LinearDw(const CudaContext& ctx);
void PrepareLinearDw(const CudaContext& ctx);

}  // namespace plimsoll::ops
