// Zeros for the padding of rows of unequal length: of data[b][outer][T], elements of `width`
// values, those from lengths[b] on.
//
// A block has kPaddingRows elements of one b and outer index. Bytes: those that are written.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/elements.cuh"

namespace plimsoll::ops {

inline constexpr int kPaddingRows = 16;
inline constexpr int kPaddingThreads = 256;

template <typename T>
__global__ __launch_bounds__(kPaddingThreads) void ZeroPaddingKernel(
    T* data, const int32_t* lengths, int64_t outer, int64_t sequence, int64_t width) {
  const int64_t row = blockIdx.y;  // of [b][outer]
  int64_t first = int64_t{blockIdx.x} * kPaddingRows;
  const int64_t end = min(sequence, first + kPaddingRows);
  first = max(first, min(sequence, int64_t{max(0, lengths[row / outer])}));
  T* const from = data + row * sequence * width;
  for (int64_t i = first * width + threadIdx.x; i < end * width; i += kPaddingThreads) {
    from[i] = FromFloat<T>(0.0f);
  }
}

template <typename T>
void ZeroPadding(T* data, const int32_t* lengths, int64_t batch, int64_t outer, int64_t sequence,
                 int64_t width, cudaStream_t stream) {
  constexpr int64_t kMost = 65535;  // the limit of a grid's second dimension
  const int64_t blocks = (sequence + kPaddingRows - 1) / kPaddingRows;
  const int64_t rows_at_once = max(int64_t{1}, kMost / outer);  // of the batch
  for (int64_t b = 0; b < batch; b += rows_at_once) {
    const int64_t count = min(rows_at_once, batch - b);
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(count * outer));
    ZeroPaddingKernel<<<grid, kPaddingThreads, 0, stream>>>(data + b * outer * sequence * width,
                                                            lengths + b, outer, sequence, width);
    gpu::CheckLaunch("padding");
  }
}

}  // namespace plimsoll::ops
