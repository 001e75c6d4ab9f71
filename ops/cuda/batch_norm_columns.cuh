// How kernels of batch norm divide x: some packs of 16 bytes across, and rows down; and one thread
// for each channel.
#pragma once

#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/dependent_launch.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

inline constexpr int kNormThreads = 256;

// Calls launch.operator()<elements of a thread, threads along a row>(), with whole packs where they
// fit.
template <typename T, typename Launch>
void WithPacks(int64_t columns, bool aligned, const Launch& launch) {
  constexpr int N = kPackSize<T>;
  if (!aligned || columns % N != 0) {
    launch.template operator()<1, 32>();
  } else if (columns <= 8 * N) {
    launch.template operator()<N, 8>();
  } else {
    launch.template operator()<N, 16>();
  }
}

// Blocks across the columns.
template <int N, int kAcross>
unsigned BlocksAcross(int64_t columns) {
  return static_cast<unsigned>((columns + kAcross * N - 1) / (kAcross * N));
}

// Elements that a thread computes at a time: two of 16 bits are converted by one instruction.
template <int N>
inline constexpr int kNormWide = N > 1 ? 2 : 1;

// Elements i, … of a pack, and their place in it. i is a multiple of kWide.
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

// In shared memory: kTerms numbers of each of the block's channels, in an order in which threads
// along a row meet different banks.
template <int N, int kAcross, int kTerms>
struct BlockChannels {
  float terms[kTerms][N][kAcross];

  // One thread finds those of a channel: find(column, float (&)[kTerms]). All threads call it.
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
  // Those of the thread's channels i, …
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

// One thread for each group and channel.
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
