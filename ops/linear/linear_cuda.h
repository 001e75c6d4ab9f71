// The CUDA kernels of linear, linear_dx and linear_dw, for other ops whose arguments are in the
// same order and mean the same: a convolution of single pixels is a matrix product.
//
// x[...,K] and dy[...,N] may have any number of dimensions before the last; of a weight count the
// first, N, and the last, K, all others are 1.
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
