// How thread blocks with the same keys and other query heads add to dk and dv, one part of the
// heads after another, in float32, through scratch memory (MmaKeyParts in
// ops/attention/attention_backward_ways.h).
//
// Bytes: every part but the first reads the sums of its keys once; every part but the last writes
// them once.
#pragma once

#include <cstdint>

#include "ops/cuda/counters.cuh"

namespace plimsoll::ops {

// The parts of the query heads that share keys.
struct KeyParts {
  int parts;
  int blocks;     // blocks of keys
  float4* sums;   // [blocks, values of a thread / 4, threads]: dk and dv
  int* counters;  // [blocks]: the parts that have been added

  // This thread block's part, and its block of keys. A part waits only for thread blocks of lower
  // index, which have begun earlier.
  __device__ int Part() const { return static_cast<int>(blockIdx.x) / blocks; }
  __device__ int Block() const { return static_cast<int>(blockIdx.x) % blocks; }
};

// Clears the counters before the kernel that uses them.
__device__ inline void ClearCounters(const KeyParts& parts) {
  if (parts.parts == 1) return;
  for (int i = static_cast<int>(blockIdx.x); i < parts.blocks; i += static_cast<int>(gridDim.x)) {
    if (threadIdx.x == 0) parts.counters[i] = 0;
  }
}

// Adds the sums of earlier parts to this one's, and leaves them for the next part. Returns whether
// this was the last part. All threads call it.
template <int kThreads, int N>
__device__ bool AddParts(const KeyParts& parts, float (&sums)[N][4]) {
  const int part = parts.Part(), block = parts.Block();
  float4* const shared = parts.sums + int64_t{block} * N * kThreads + threadIdx.x;
  int* const counter = parts.counters + block;
  if (part > 0) {
    if (threadIdx.x == 0) {
      while (LoadAcquire(counter) != part) __nanosleep(32);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float4 before = __ldcg(shared + i * kThreads);
      sums[i][0] += before.x, sums[i][1] += before.y;
      sums[i][2] += before.z, sums[i][3] += before.w;
    }
  }
  if (part + 1 == parts.parts) return true;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    __stcg(shared + i * kThreads, float4{sums[i][0], sums[i][1], sums[i][2], sums[i][3]});
  }
  __syncthreads();
  if (threadIdx.x == 0) StoreRelease(counter, part + 1);
  return false;
}

}  // namespace plimsoll::ops
