// The second stage of sums over rows: adds partial sums, in their order, to the results.
#pragma once

#include <cstdint>

#include "ops/cuda/dependent_launch.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

// The partial sums and results of up to two sums.
struct ColumnSums {
  const float* partials;  // [count][sums][width]
  int64_t count;
  int64_t width;
  int sums = 0;
  const float* acc[2] = {};  // [width], added; nullptr means none. May be the memory of out.
  float* out[2] = {};        // [width]
};

// A block has 32 columns, one for each lane; each of its warps adds every 8th partial sum. All
// loads of a thread are in flight at once, because few blocks and little other work could hide
// them.
inline constexpr int kColumnSumsParts = 8, kColumnSumsLoads = 17;

static __global__ __launch_bounds__(kColumnSumsParts* kWarp) void ColumnSumsKernel(ColumnSums p) {
  __shared__ float shared[kColumnSumsParts][kWarp];
  const int lane = threadIdx.x, part = threadIdx.y;
  const int64_t column = int64_t{blockIdx.x} * kWarp + lane;
  const int which = blockIdx.y;
  float sum = 0;
  AwaitFirstStage();
  if (column < p.width) {
    const int64_t stride = p.sums * p.width;
    const float* from = p.partials + which * p.width + column;
    for (int64_t first = part; first < p.count; first += kColumnSumsParts * kColumnSumsLoads) {
      float loaded[kColumnSumsLoads];
#pragma unroll
      for (int k = 0; k < kColumnSumsLoads; ++k) {
        const int64_t i = first + k * kColumnSumsParts;
        loaded[k] = i < p.count ? from[i * stride] : 0.0f;
      }
#pragma unroll
      for (int k = 0; k < kColumnSumsLoads; ++k) sum += loaded[k];
    }
  }
  shared[part][lane] = sum;
  __syncthreads();
  if (part > 0 || column >= p.width) return;
  float total = p.acc[which] != nullptr ? p.acc[which][column] : 0.0f;
#pragma unroll
  for (int i = 0; i < kColumnSumsParts; ++i) total += shared[i][lane];
  p.out[which][column] = total;
}

inline void LaunchColumnSums(const ColumnSums& p, const CudaContext& ctx) {
  const dim3 grid(static_cast<unsigned>((p.width + kWarp - 1) / kWarp),
                  static_cast<unsigned>(p.sums));
  LaunchDependent(&ColumnSumsKernel, grid, dim3(kWarp, kColumnSumsParts), ctx, p);
}

}  // namespace plimsoll::ops
