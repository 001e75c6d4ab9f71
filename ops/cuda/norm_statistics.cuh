// The statistics of a row of a norm, from sums of its elements. Each operation names its rounding,
// so that kernels that add a row's elements in the same order have the same bits.
#pragma once

#include <cuda_runtime.h>

namespace plimsoll::ops {

template <int N>
__device__ void AddElements(const float (&x)[N], float& sum) {
#pragma unroll
  for (int i = 0; i < N; ++i) sum = __fadd_rn(sum, x[i]);
}

// Adds (x − mean)². Without kMean, mean is 0.
template <bool kMean, int N>
__device__ void AddSquares(const float (&x)[N], float mean, float& squares) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float d = kMean ? __fsub_rn(x[i], mean) : x[i];
    squares = __fmaf_rn(d, d, squares);
  }
}

// `share`: 1 / width.
__device__ inline float MeanOfSum(float sum, float share) { return __fmul_rn(sum, share); }
__device__ inline float RstdOfSquares(float squares, float share, float eps) {
  return rsqrtf(__fmaf_rn(squares, share, eps));
}

}  // namespace plimsoll::ops
