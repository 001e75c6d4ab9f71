// Formulas in ops/resize/resize_cpu.cc. A thread makes 16 bytes of channels of a pixel of the
// result, or one channel where pixels do not consist of whole packs. Pixels that several threads
// read come from the cache. Bytes: the input once, the output.
//
// dx is gathered, each element adding its readers row by row: there are no atomic additions.
#include "ops/cuda/pool_packs.cuh"
#include "ops/cuda_kernel.h"
#include "ops/resize/resize_geometry.h"

namespace plimsoll::ops {
namespace {

// `kVolumes`: images, whose depth is 1, do not read along the depth.
template <int N, bool kVolumes, typename Axis, typename S>
__global__ void __launch_bounds__(kPoolThreads)
    ForwardKernel(const ResizeGeometry<Axis> g, const PixelPacks packs, const S* x, S* y) {
  uint32_t pack;
  if (!packs.Find(&pack)) return;
  const PixelPack at = packs.Locate<N>(pack);
  const int32_t z = kVolumes ? at.row / g.rows.out : 0;
  constexpr int kTaps = Axis::kTaps, kPlanes = kVolumes ? kTaps : 1;
  int32_t planes[kTaps] = {}, rows[kTaps], columns[kTaps];
  float of_plane[kTaps] = {1}, of_row[kTaps], of_column[kTaps];
  if constexpr (kVolumes) g.depth.Read(z, planes, of_plane);
  g.rows.Read(at.row - z * g.rows.out, rows, of_row);
  g.columns.Read(at.column, columns, of_column);
  x += at.image * g.in_elements() + at.channel;
  const auto channels = static_cast<uint32_t>(g.channels);
  float sums[N] = {};
#pragma unroll
  for (int a = 0; a < kPlanes; ++a) {
#pragma unroll
    for (int b = 0; b < kTaps; ++b) {
      const int32_t row = (planes[a] * g.rows.in + rows[b]) * g.columns.in;
#pragma unroll
      for (int d = 0; d < kTaps; ++d) {
        const float weight = of_plane[a] * of_row[b] * of_column[d];
        float values[N];
        LoadPack<N>(x + static_cast<uint32_t>(row + columns[d]) * channels, values);
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] = __fmaf_rn(values[i], weight, sums[i]);
      }
    }
  }
  StoreGlobal(y + int64_t{pack} * N, sums);
}

template <int N, bool kVolumes, typename Axis, typename S>
__global__ void __launch_bounds__(kPoolThreads)
    BackwardKernel(const ResizeGeometry<Axis> g, const PixelPacks packs, const S* dy, S* dx) {
  uint32_t pack;
  if (!packs.Find(&pack)) return;
  const PixelPack at = packs.Locate<N>(pack);
  const int32_t depth = kVolumes ? at.row / g.rows.in : 0, row = at.row - depth * g.rows.in;
  const ResizeRange planes = kVolumes ? g.depth.Readers(depth) : ResizeRange{0, 1};
  const ResizeRange rows = g.rows.Readers(row), columns = g.columns.Readers(at.column);
  dy += at.image * g.out_elements() + at.channel;
  const auto channels = static_cast<uint32_t>(g.channels);
  float sums[N] = {};
  for (int32_t z = planes.begin; z < planes.end; ++z) {
    const float of_plane = kVolumes ? g.depth.template Weight<float>(z, depth) : 1;
    for (int32_t i = rows.begin; i < rows.end; ++i) {
      const float of_row = of_plane * g.rows.template Weight<float>(i, row);
      const int32_t line = (z * g.rows.out + i) * g.columns.out;
      for (int32_t j = columns.begin; j < columns.end; ++j) {
        const float weight = of_row * g.columns.template Weight<float>(j, at.column);
        float values[N];
        LoadPack<N>(dy + static_cast<uint32_t>(line + j) * channels, values);
#pragma unroll
        for (int k = 0; k < N; ++k) sums[k] = __fmaf_rn(values[k], weight, sums[k]);
      }
    }
  }
  StoreGlobal(dx + int64_t{pack} * N, sums);
}

template <int N, bool kVolumes, bool kForward, typename S, typename Axis>
void Launch(const CudaContext& ctx, const ResizeGeometry<Axis>& g) {
  const int64_t rows =
      kForward ? int64_t{g.depth.out} * g.rows.out : int64_t{g.depth.in} * g.rows.in;
  const int64_t columns = kForward ? g.columns.out : g.columns.in;
  const int64_t per_pixel = g.channels / N, per_image = rows * columns * per_pixel;
  ForImages(g.batch, per_image, [&](int64_t first, int64_t images) {
    const PixelPacks packs{static_cast<uint32_t>(images * per_image), static_cast<uint32_t>(rows),
                           static_cast<uint32_t>(columns), static_cast<uint32_t>(per_pixel)};
    const unsigned blocks = (packs.count + kPoolThreads - 1) / kPoolThreads;
    const int64_t of_x = first * g.in_elements(), of_y = first * g.out_elements();
    if constexpr (kForward) {
      ForwardKernel<N, kVolumes><<<blocks, kPoolThreads, 0, ctx.stream>>>(
          g, packs, ctx.in<S>(0) + of_x, ctx.out<S>(0) + of_y);
    } else {
      BackwardKernel<N, kVolumes><<<blocks, kPoolThreads, 0, ctx.stream>>>(
          g, packs, ctx.in<S>(0) + of_y, ctx.out<S>(0) + of_x);
    }
    gpu::CheckLaunch(ctx.op.name.c_str());
  });
}

template <bool kForward>
void Resize(const CudaContext& ctx) {
  const graph::Shape& x = kForward ? ctx.in_shape(0) : ctx.out_shape(0);
  const graph::Shape& y = kForward ? ctx.out_shape(0) : ctx.in_shape(0);
  WithResizeGeometry(ctx.attributes, x, y, [&](const auto& g) {
    DispatchCuda(ctx.dtype(), [&]<typename S>() {
      constexpr int N = kPackSize<S>;
      const bool packs = g.channels % N == 0 && Aligned(ctx.in<S>(0), ctx.out<S>(0));
      if (x.rank() == 5) {
        packs ? Launch<N, true, kForward, S>(ctx, g) : Launch<1, true, kForward, S>(ctx, g);
      } else {
        packs ? Launch<N, false, kForward, S>(ctx, g) : Launch<1, false, kForward, S>(ctx, g);
      }
    });
  });
}

const CudaKernelRegistration kResize({"resize", &Resize<true>});
const CudaKernelRegistration kResizeBackward({"resize_backward", &Resize<false>});

}  // namespace
}  // namespace plimsoll::ops
