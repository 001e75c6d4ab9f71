// The second stage of sums over rows: adds partial sums, in their order, to the final ones.
#pragma once

#include <cstdint>

#include "ops/cuda/dependent_launch.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

// Up to two results at once.
struct ColumnSums {
  const float* partials;  // [count][sums][width]
  int64_t count;
  int64_t width;
  int sums = 0;
  const float* acc[2] = {};  // [width], added; nullptr: none. May be the memory of out.
  float* out[2] = {};        // [width]
};

// 32 columns a block; each of its 32 warps adds every 32nd partial sum.
static __global__ __launch_bounds__(1024) void ColumnSumsKernel(ColumnSums p) {
  __shared__ float shared[kWarp][kWarp + 1];
  const int lane = threadIdx.x, part = threadIdx.y;
  const int64_t column = int64_t{blockIdx.x} * kWarp + lane;
  const int which = blockIdx.y;
  float sum = 0;
  AwaitFirstStage();
  if (column < p.width) {
    const int64_t stride = p.sums * p.width;
    const float* from = p.partials + which * p.width + column;
#pragma unroll 8
    for (int64_t i = part; i < p.count; i += kWarp) sum += from[i * stride];
  }
  shared[part][lane] = sum;
  __syncthreads();
  // Warp w finishes column w.
  sum = WarpSum(shared[lane][part]);
  const int64_t mine = int64_t{blockIdx.x} * kWarp + part;
  if (lane == 0 && mine < p.width) {
    p.out[which][mine] = sum + (p.acc[which] != nullptr ? p.acc[which][mine] : 0.0f);
  }
}

inline void LaunchColumnSums(const ColumnSums& p, const CudaContext& ctx) {
  const dim3 grid(static_cast<unsigned>((p.width + kWarp - 1) / kWarp),
                  static_cast<unsigned>(p.sums));
  LaunchDependent(&ColumnSumsKernel, grid, dim3(kWarp, kWarp), ctx, p);
}

}  // namespace plimsoll::ops
