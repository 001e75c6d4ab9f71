// How kernels of batch norm divide x: 16 packs of 16 bytes across, and rows down; and one thread
// for each channel.
#pragma once

#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

inline constexpr int kNormThreads = 256;
inline constexpr int kNormRowsAtOnce = 4;  // of a thread: their loads come before the first store

// Threads along a row, for packs and for single elements.
template <int N>
inline constexpr int kNormLanes = N > 1 ? 16 : 32;

// Calls launch.operator()<elements of a thread>(), with whole packs where they fit.
template <typename T, typename Launch>
void WithPacks(int64_t columns, bool aligned, const Launch& launch) {
  if (aligned && columns % kPackSize<T> == 0) {
    launch.template operator()<kPackSize<T>>();
  } else {
    launch.template operator()<1>();
  }
}

// Blocks across the columns.
template <int N>
unsigned Across(int64_t columns) {
  constexpr int64_t kColumns = kNormLanes<N> * N;
  return static_cast<unsigned>((columns + kColumns - 1) / kColumns);
}

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
