// How kernels of batch norm divide x: threads of a row take neighbouring packs of 16 bytes, other
// threads take further rows. And a kernel with one thread for each channel.
#pragma once

#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/dependent_launch.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

inline constexpr int kNormThreads = 256;

// Calls launch.operator()<elements of a thread, threads along a row>(), with full packs if they
// fit.
template <typename T, typename Launch>
void WithPacks(int64_t columns, bool aligned, const Launch& launch) {
  constexpr int N = kPackSize<T>;
  if (!aligned || columns % N != 0) {
    launch.template operator()<1, 32>();
  } else if (columns <= 4 * N) {
    launch.template operator()<N, 4>();
  } else if (columns <= 8 * N) {
    launch.template operator()<N, 8>();
  } else {
    launch.template operator()<N, 16>();
  }
}

// The number of blocks across the columns.
template <int N, int kAcross>
unsigned BlocksAcross(int64_t columns) {
  return static_cast<unsigned>((columns + kAcross * N - 1) / (kAcross * N));
}

// How blocks sweep over the rows together: each takes every gridDim-th step of a number of rows.
// With `from_end` the sweep is reversed, so that rows which the previous kernel touched last, and
// which are still in L2, come first.
template <int kAcross, int kAtOnce>
struct RowSteps {
  static constexpr int kDown = kNormThreads / kAcross, kRows = kDown * kAtOnce;

  // Calls visit(first row of the thread) for the steps of block `block` of `blocks`.
  template <typename Visit>
  static __device__ void ForEach(int64_t rows, int64_t block, int64_t blocks, bool from_end,
                                 const Visit& visit) {
    const int64_t steps = (rows + kRows - 1) / kRows;
    const int64_t mine = steps > block ? (steps - block + blocks - 1) / blocks : 0;
    for (int64_t i = 0; i < mine; ++i) {
      const int64_t step = block + (from_end ? mine - 1 - i : i) * blocks;
      visit(step * kRows + threadIdx.x / kAcross);
    }
  }
};

// The number of elements that a thread computes at a time: one instruction converts two 16-bit
// elements.
template <int N>
inline constexpr int kNormWide = N > 1 ? 2 : 1;

// Elements i, … of a pack, by their position in it. i must be a multiple of kWide.
template <int kWide, typename T, int N>
__device__ void PartOf(const Pack<T, N>& pack, int i, float (&to)[kWide]) {
  ToFloats(reinterpret_cast<const Pack<T, kWide>*>(&pack)[i / kWide], to);
}
template <int kWide, typename T, int N>
__device__ void RoundInto(Pack<T, N>& pack, int i, const float (&from)[kWide]) {
  reinterpret_cast<Pack<T, kWide>*>(&pack)[i / kWide] = RoundPack<T, kWide>(from);
}

template <int N, typename T>
__device__ Pack<T, N> ReadPack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

// kTerms numbers for each of the block's channels, in shared memory. They are ordered so that the
// threads of a row access different banks.
template <int N, int kAcross, int kTerms>
struct BlockChannels {
  float terms[kTerms][N][kAcross];

  // One thread computes the numbers of a channel: find(column, float (&)[kTerms]). All threads call
  // Set.
  template <typename Find>
  __device__ void Set(int64_t first, int64_t columns, const Find& find) {
    for (int i = static_cast<int>(threadIdx.x); i < kAcross * N; i += kNormThreads) {
      if (first + i >= columns) continue;
      float found[kTerms];
      find(first + i, found);
#pragma unroll
      for (int k = 0; k < kTerms; ++k) terms[k][i % N][i / N] = found[k];
    }
    __syncthreads();
  }
  // The numbers of the thread's channels i, i + 1, …
  template <int kWide>
  __device__ void Get(int i, float (&to)[kTerms][kWide]) const {
#pragma unroll
    for (int k = 0; k < kTerms; ++k) {
#pragma unroll
      for (int w = 0; w < kWide; ++w) to[k][w] = terms[k][i + w][threadIdx.x % kAcross];
    }
  }
};

inline constexpr int kChannelThreads = 128;
inline unsigned ChannelBlocks(int64_t channels) {
  return static_cast<unsigned>((channels + kChannelThreads - 1) / kChannelThreads);
}

// Calls the function with one thread for each group and channel.
template <typename Function>
__global__ void __launch_bounds__(kChannelThreads)
    ChannelsKernel(int64_t channels, Function function) {
  const int64_t n = int64_t{blockIdx.x} * kChannelThreads + threadIdx.x;
  if (n < channels) function(n);
}

template <typename Function>
void ForChannels(const CudaContext& ctx, int64_t channels, const Function& function) {
  ChannelsKernel<<<ChannelBlocks(channels), kChannelThreads, 0, ctx.stream>>>(channels, function);
  gpu::CheckLaunch(ctx.op.name.c_str());
}

}  // namespace plimsoll::ops
