// Formulas in ops/pooling/avg_pool_cpu.cc. A thread computes 16 bytes of channels of a pixel of the
// result, or one channel if pixels do not consist of full packs. Windows that overlap are read from
// the cache. Bytes: the input once, the output.
//
// dx is gathered, each element adding its windows row by row: there are no atomic additions.
#include "ops/cuda/pool_packs.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

__device__ int32_t Size(const PoolRange& range) { return range.end - range.begin; }

// The number of elements of a window. `padded`: elements in the padding count, too.
__device__ float Count(const PoolGeometry& p, bool padded, const PoolRange& rows,
                       const PoolRange& columns) {
  return static_cast<float>(padded ? p.window() : int64_t{Size(rows)} * Size(columns));
}

template <int N, typename S>
__global__ void __launch_bounds__(kPoolThreads)
    ForwardKernel(const PoolGeometry p, const PixelPacks packs, bool padded, const S* x, S* y) {
  uint32_t pack;
  if (!packs.Find(&pack)) return;
  const PixelPack at = packs.Locate<N>(pack);
  const auto channels = static_cast<uint32_t>(p.channels);
  const PoolRange rows = p.rows.Elements(at.row), columns = p.columns.Elements(at.column);
  x += at.image * p.image_elements() + at.channel;
  float sums[N] = {};
  for (int32_t h = rows.begin; h < rows.end; ++h) {
    for (int32_t w = columns.begin; w < columns.end; ++w) {
      float values[N];
      LoadPack<N>(x + static_cast<uint32_t>(h * p.columns.size + w) * channels, values);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += values[i];
    }
  }
  const float n = Count(p, padded, rows, columns);
#pragma unroll
  for (int i = 0; i < N; ++i) sums[i] = __fdiv_rn(sums[i], n);
  StoreGlobal(y + int64_t{pack} * N, sums);
}

template <int N, typename S>
__global__ void __launch_bounds__(kPoolThreads)
    BackwardKernel(const PoolGeometry p, const PixelPacks packs, bool padded, const S* dy, S* dx) {
  uint32_t pack;
  if (!packs.Find(&pack)) return;
  const PixelPack at = packs.Locate<N>(pack);
  const auto channels = static_cast<uint32_t>(p.channels);
  const PoolRange rows = p.rows.Windows(at.row), columns = p.columns.Windows(at.column);
  dy += at.image * p.pooled_elements() + at.channel;
  float sums[N] = {};
  for (int32_t i = rows.begin; i < rows.end; ++i) {
    for (int32_t j = columns.begin; j < columns.end; ++j) {
      const float n = Count(p, padded, p.rows.Elements(i), p.columns.Elements(j));
      const float share = __frcp_rn(n);
      float values[N];
      LoadPack<N>(dy + static_cast<uint32_t>(i * p.columns.pooled + j) * channels, values);
#pragma unroll
      for (int k = 0; k < N; ++k) sums[k] = __fmaf_rn(values[k], share, sums[k]);
    }
  }
  StoreGlobal(dx + int64_t{pack} * N, sums);
}

template <int N, bool kForward, typename S>
void Launch(const CudaContext& ctx, const PoolGeometry& p) {
  const bool padded = ctx.attributes.GetBool("count_include_pad");
  const auto launch = [&](const PixelPacks& packs, unsigned blocks, int64_t image, int64_t pooled) {
    if constexpr (kForward) {
      ForwardKernel<N><<<blocks, kPoolThreads, 0, ctx.stream>>>(
          p, packs, padded, ctx.in<S>(0) + image, ctx.out<S>(0) + pooled);
    } else {
      BackwardKernel<N><<<blocks, kPoolThreads, 0, ctx.stream>>>(
          p, packs, padded, ctx.in<S>(0) + pooled, ctx.out<S>(0) + image);
    }
    gpu::CheckLaunch(ctx.op.name.c_str());
  };
  ForPixelPacks<N, kForward>(p, launch);
}

template <bool kForward>
void AvgPool2d(const CudaContext& ctx) {
  const PoolGeometry p = GeometryOf(ctx.attributes, kForward ? ctx.in_shape(0) : ctx.out_shape(0));
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    constexpr int N = kPackSize<S>;
    const bool aligned = p.channels % N == 0 && Aligned(ctx.in<S>(0), ctx.out<S>(0));
    aligned ? Launch<N, kForward, S>(ctx, p) : Launch<1, kForward, S>(ctx, p);
  });
}

const CudaKernelRegistration kAvgPool2d({"avg_pool2d", &AvgPool2d<true>});
const CudaKernelRegistration kAvgPool2dBackward({"avg_pool2d_backward", &AvgPool2d<false>});

}  // namespace
}  // namespace plimsoll::ops
