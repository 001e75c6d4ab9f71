// The first launch of column sums (column_sums.cu), for kernels that have the rows in registers
// anyway. They give the same bits as ColumnSums if they add the same rows in the same order. That
// is: blocks have kSumThreads threads; block (x, y) takes kLanes · N columns and chunk y of
// ColumnSumsChunk rows; thread t takes N columns; kLanes threads share a row; row t / kLanes of the
// chunk is the thread's first, and each next one is kSumThreads / kLanes further.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/cuda/reduce.cuh"

namespace plimsoll::ops {

inline constexpr int kSumThreads = 512;
// The number of blocks that run at once on a multiprocessor; ColumnSumsChunk relies on it.
inline constexpr int kSumBlocks = 2;
// The number of threads that share a row: for packs of 16 bytes, and for single elements.
inline constexpr int kSumLanes = 16, kSumLanesSingle = 32;

// Adds the sums of the block's threads, by shuffles within warps, then in shared memory, and stores
// them as row blockIdx.y of `partials`. All threads of the block call it.
template <int N, int kLanes>
__device__ void StorePartialSums(float (&sums)[N], int64_t columns, float* partials) {
  constexpr int kWarps = kSumThreads / kWarp;
  __shared__ float shared[kWarps][kLanes * N];
  const int lane = threadIdx.x % kLanes;
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
#pragma unroll
  for (int j = 0; j < N; ++j) {
#pragma unroll
    for (int offset = kLanes; offset < kWarp; offset *= 2) {
      sums[j] += __shfl_xor_sync(~0u, sums[j], offset);
    }
  }
  // Element j of all lanes is contiguous, so that no two lanes access the same bank.
  if (threadIdx.x % kWarp < kLanes) {
#pragma unroll
    for (int j = 0; j < N; ++j) shared[threadIdx.x / kWarp][j * kLanes + lane] = sums[j];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kLanes * N; i += kSumThreads) {
    const int64_t to = int64_t{blockIdx.x} * kLanes * N + i;
    if (to >= columns) return;
    const int from = i % N * kLanes + i / N;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shared[w][from];
    partials[blockIdx.y * columns + to] = sum;
  }
}

}  // namespace plimsoll::ops
