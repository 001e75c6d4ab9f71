// Formulas in ops/pooling/max_pool_cpu.cc. A thread makes 16 bytes of channels of a pixel of the
// result, or one channel where pixels do not consist of whole packs. Windows that overlap are read
// from the cache. Bytes: forward x once, y and index; backward dy and index once, dx.
//
// dx is gathered, each element adding its windows row by row: there are no atomic additions.
#include <cmath>

#include "ops/cuda/pool_packs.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

template <int N, bool kIndex, typename S>
__global__ void __launch_bounds__(kPoolThreads)
    ForwardKernel(const PoolGeometry p, const PixelPacks packs, const S* x, S* y, uint8_t* index) {
  uint32_t pack;
  if (!packs.Find(&pack)) return;
  const PixelPack at = packs.Locate<N>(pack);
  const auto channels = static_cast<uint32_t>(p.channels);
  const PoolRange rows = p.rows.Elements(at.row), columns = p.columns.Elements(at.column);
  const int32_t top = p.rows.Start(at.row), left = p.columns.Start(at.column);
  x += at.image * p.image_elements() + at.channel;
  // The first element wins where all are −∞.
  float best[N];
  int32_t chosen[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    best[i] = -INFINITY;
    chosen[i] = (rows.begin - top) * p.columns.kernel + columns.begin - left;
  }
  for (int32_t h = rows.begin; h < rows.end; ++h) {
    for (int32_t w = columns.begin; w < columns.end; ++w) {
      const int32_t position = (h - top) * p.columns.kernel + w - left;
      float values[N];
      LoadPack<N>(x + static_cast<uint32_t>(h * p.columns.size + w) * channels, values);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const bool better = values[i] > best[i] || values[i] != values[i];
        best[i] = better ? values[i] : best[i];
        if constexpr (kIndex) chosen[i] = better ? position : chosen[i];
      }
    }
  }
  StoreGlobal(y + int64_t{pack} * N, best);
  if constexpr (kIndex) {
    Pack<uint8_t, N> positions;
#pragma unroll
    for (int i = 0; i < N; ++i) positions.values[i] = static_cast<uint8_t>(chosen[i]);
    WriteGlobal(index + int64_t{pack} * N, positions);
  }
}

template <int N, typename S>
__global__ void __launch_bounds__(kPoolThreads)
    BackwardKernel(const PoolGeometry p, const PixelPacks packs, const S* dy, const uint8_t* index,
                   S* dx) {
  uint32_t pack;
  if (!packs.Find(&pack)) return;
  const PixelPack at = packs.Locate<N>(pack);
  const auto channels = static_cast<uint32_t>(p.channels);
  const PoolRange rows = p.rows.Windows(at.row), columns = p.columns.Windows(at.column);
  const int64_t first = at.image * p.pooled_elements() + at.channel;
  float sums[N] = {};
  for (int32_t i = rows.begin; i < rows.end; ++i) {
    const int32_t row = at.row - p.rows.Start(i);
    for (int32_t j = columns.begin; j < columns.end; ++j) {
      const int32_t position = row * p.columns.kernel + at.column - p.columns.Start(j);
      const int64_t from = first + static_cast<uint32_t>(i * p.columns.pooled + j) * channels;
      const auto chosen = *reinterpret_cast<const Pack<uint8_t, N>*>(index + from);
      float values[N];
      LoadPack<N>(dy + from, values);
#pragma unroll
      for (int k = 0; k < N; ++k) sums[k] += chosen.values[k] == position ? values[k] : 0.0f;
    }
  }
  StoreGlobal(dx + int64_t{pack} * N, sums);
}

template <int N, bool kIndex, typename S>
void LaunchForward(const CudaContext& ctx, const PoolGeometry& p) {
  const auto launch = [&](const PixelPacks& packs, unsigned blocks, int64_t image, int64_t pooled) {
    ForwardKernel<N, kIndex><<<blocks, kPoolThreads, 0, ctx.stream>>>(
        p, packs, ctx.in<S>(0) + image, ctx.out<S>(0) + pooled,
        kIndex ? ctx.out<uint8_t>(1) + pooled : nullptr);
    gpu::CheckLaunch("max_pool2d");
  };
  ForPixelPacks<N, true>(p, launch);
}

void MaxPool2d(const CudaContext& ctx) {
  const PoolGeometry p = GeometryOf(ctx.attributes, ctx.in_shape(0));
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    constexpr int N = kPackSize<S>;
    const bool index = ctx.has_output(1);
    const bool aligned = p.channels % N == 0 && Aligned(ctx.in<S>(0), ctx.out<S>(0)) &&
                         IsAligned(ctx.out<uint8_t>(1), N);
    if (aligned) {
      index ? LaunchForward<N, true, S>(ctx, p) : LaunchForward<N, false, S>(ctx, p);
    } else {
      index ? LaunchForward<1, true, S>(ctx, p) : LaunchForward<1, false, S>(ctx, p);
    }
  });
}

template <int N, typename S>
void LaunchBackward(const CudaContext& ctx, const PoolGeometry& p) {
  const auto launch = [&](const PixelPacks& packs, unsigned blocks, int64_t image, int64_t pooled) {
    BackwardKernel<N><<<blocks, kPoolThreads, 0, ctx.stream>>>(
        p, packs, ctx.in<S>(0) + pooled, ctx.in<uint8_t>(1) + pooled, ctx.out<S>(0) + image);
    gpu::CheckLaunch("max_pool2d_backward");
  };
  ForPixelPacks<N, false>(p, launch);
}

void MaxPool2dBackward(const CudaContext& ctx) {
  const PoolGeometry p = GeometryOf(ctx.attributes, ctx.out_shape(0));
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    constexpr int N = kPackSize<S>;
    const bool aligned = p.channels % N == 0 && Aligned(ctx.in<S>(0), ctx.out<S>(0)) &&
                         IsAligned(ctx.in<uint8_t>(1), N);
    aligned ? LaunchBackward<N, S>(ctx, p) : LaunchBackward<1, S>(ctx, p);
  });
}

const CudaKernelRegistration kMaxPool2d({"max_pool2d", &MaxPool2d});
const CudaKernelRegistration kMaxPool2dBackward({"max_pool2d_backward", &MaxPool2dBackward});

}  // namespace
}  // namespace plimsoll::ops
