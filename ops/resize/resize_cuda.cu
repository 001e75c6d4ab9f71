// Formulas in ops/resize/resize_cpu.cc. A thread computes 16 bytes of channels of a pixel of the
// result, or one channel if pixels do not consist of full packs. Pixels that several threads read
// come from the cache. Bytes: the input once, the output.
//
// dx is gathered, each element adding the pixels that read it in one order: there are no atomic
// additions.
#include <type_traits>

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

// Replaces two neighbouring values by the values at one and three quarters of the way between them.
__device__ void Spread(float& front, float& behind) {
  const float first = front;
  front = __fmaf_rn(0.75f, first, 0.25f * behind);
  behind = __fmaf_rn(0.25f, first, 0.75f * behind);
}

// Linear interpolation to twice the size: pixels 2·i − 1 and 2·i of y are between pixels i − 1 and
// i of x. A thread computes a pack of these 4 or 8 pixels, for i from 0 to the size of x.
template <int N, bool kVolumes, typename S>
__global__ void __launch_bounds__(kPoolThreads)
    TwiceKernel(const ResizeGeometry<LinearAxis> g, const PixelPacks packs, const S* x, S* y) {
  uint32_t pack;
  if (!packs.Find(&pack)) return;
  const PixelPack at = packs.Locate<N>(pack);
  const int32_t depth = kVolumes ? at.row / (g.rows.in + 1) : 0;
  const int32_t row = at.row - depth * (g.rows.in + 1);
  x += at.image * g.in_elements() + at.channel;
  y += at.image * g.out_elements() + at.channel;
  const auto channels = static_cast<uint32_t>(g.channels);
  // Positions beyond the border read the pixel at the border.
  const auto inside = [](int32_t pixel, const LinearAxis& axis) {
    return min(max(pixel, 0), axis.in - 1);
  };
  constexpr int kPlanes = kVolumes ? 2 : 1;
  float values[kPlanes][2][2][N];
#pragma unroll
  for (int a = 0; a < kPlanes; ++a) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int32_t plane = kVolumes ? inside(depth - 1 + a, g.depth) : 0;
      const int32_t line = (plane * g.rows.in + inside(row - 1 + b, g.rows)) * g.columns.in;
#pragma unroll
      for (int d = 0; d < 2; ++d) {
        const int32_t pixel = line + inside(at.column - 1 + d, g.columns);
        LoadPack<N>(x + static_cast<uint32_t>(pixel) * channels, values[a][b][d]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int a = 0; a < kPlanes; ++a) {
      for (int b = 0; b < 2; ++b) Spread(values[a][b][0][i], values[a][b][1][i]);
      for (int d = 0; d < 2; ++d) Spread(values[a][0][d][i], values[a][1][d][i]);
    }
    if constexpr (kVolumes) {
      for (int b = 0; b < 2; ++b) {
        for (int d = 0; d < 2; ++d) Spread(values[0][b][d][i], values[1][b][d][i]);
      }
    }
  }
#pragma unroll
  for (int a = 0; a < kPlanes; ++a) {
    const int32_t plane = kVolumes ? 2 * depth - 1 + a : 0;
    if (plane < 0 || plane >= g.depth.out) continue;
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int32_t line = 2 * row - 1 + b;
      if (line < 0 || line >= g.rows.out) continue;
#pragma unroll
      for (int d = 0; d < 2; ++d) {
        const int32_t column = 2 * at.column - 1 + d;
        if (column < 0 || column >= g.columns.out) continue;
        const int32_t pixel = (plane * g.rows.out + line) * g.columns.out + column;
        StoreGlobal(y + static_cast<uint32_t>(pixel) * channels, values[a][b][d]);
      }
    }
  }
}

// The number of columns of dy whose weights a thread keeps. It is enough for all of them if y is at
// most twice as wide as x.
constexpr int kColumns = 4;

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
  for (int32_t first = columns.begin; first < columns.end; first += kColumns) {
    float of_column[kColumns];
#pragma unroll
    for (int d = 0; d < kColumns; ++d) {
      const bool reads = first + d < columns.end;
      of_column[d] = reads ? g.columns.template Weight<float>(first + d, at.column) : 0;
    }
    for (int32_t z = planes.begin; z < planes.end; ++z) {
      const float of_plane = kVolumes ? g.depth.template Weight<float>(z, depth) : 1;
      for (int32_t i = rows.begin; i < rows.end; ++i) {
        const float of_row = of_plane * g.rows.template Weight<float>(i, row);
        const int32_t line = (z * g.rows.out + i) * g.columns.out + first;
#pragma unroll
        for (int d = 0; d < kColumns; ++d) {
          if (first + d >= columns.end) break;
          float values[N];
          LoadPack<N>(dy + static_cast<uint32_t>(line + d) * channels, values);
          const float weight = of_row * of_column[d];
#pragma unroll
          for (int k = 0; k < N; ++k) sums[k] = __fmaf_rn(values[k], weight, sums[k]);
        }
      }
    }
  }
  StoreGlobal(dx + int64_t{pack} * N, sums);
}

// Calls launch(packs, blocks, first element of x, first element of y) for as many images at a time
// that 32 bits can count their packs. Each image has `rows` times `columns` pixels.
template <int N, typename Axis, typename Launch>
void ForResizePacks(const ResizeGeometry<Axis>& g, int64_t rows, int64_t columns,
                    const Launch& launch) {
  const int64_t per_pixel = g.channels / N, per_image = rows * columns * per_pixel;
  ForImages(g.batch, per_image, [&](int64_t first, int64_t images) {
    const PixelPacks packs{static_cast<uint32_t>(images * per_image), static_cast<uint32_t>(rows),
                           static_cast<uint32_t>(columns), static_cast<uint32_t>(per_pixel)};
    launch(packs, (packs.count + kPoolThreads - 1) / kPoolThreads, first * g.in_elements(),
           first * g.out_elements());
  });
}

bool IsTwice(const LinearAxis& axis) { return axis.step == 2 && axis.start == -1; }

template <int N, bool kVolumes, typename S, typename Axis>
void Forward(const CudaContext& ctx, const ResizeGeometry<Axis>& g) {
  const S* const x = ctx.in<S>(0);
  S* const y = ctx.out<S>(0);
  if constexpr (std::is_same_v<Axis, LinearAxis>) {
    if ((!kVolumes || IsTwice(g.depth)) && IsTwice(g.rows) && IsTwice(g.columns)) {
      const int64_t planes = kVolumes ? g.depth.in + 1 : 1;
      ForResizePacks<N>(g, planes * (g.rows.in + 1), g.columns.in + 1,
                        [&](const PixelPacks& packs, unsigned blocks, int64_t of_x, int64_t of_y) {
                          TwiceKernel<N, kVolumes><<<blocks, kPoolThreads, 0, ctx.stream>>>(
                              g, packs, x + of_x, y + of_y);
                        });
      return;
    }
  }
  ForResizePacks<N>(g, int64_t{g.depth.out} * g.rows.out, g.columns.out,
                    [&](const PixelPacks& packs, unsigned blocks, int64_t of_x, int64_t of_y) {
                      ForwardKernel<N, kVolumes>
                          <<<blocks, kPoolThreads, 0, ctx.stream>>>(g, packs, x + of_x, y + of_y);
                    });
}

template <int N, bool kVolumes, typename S, typename Axis>
void Backward(const CudaContext& ctx, const ResizeGeometry<Axis>& g) {
  const S* const dy = ctx.in<S>(0);
  S* const dx = ctx.out<S>(0);
  ForResizePacks<N>(g, int64_t{g.depth.in} * g.rows.in, g.columns.in,
                    [&](const PixelPacks& packs, unsigned blocks, int64_t of_x, int64_t of_y) {
                      BackwardKernel<N, kVolumes>
                          <<<blocks, kPoolThreads, 0, ctx.stream>>>(g, packs, dy + of_y, dx + of_x);
                    });
}

template <bool kForward>
void Resize(const CudaContext& ctx) {
  const graph::Shape& x = kForward ? ctx.in_shape(0) : ctx.out_shape(0);
  const graph::Shape& y = kForward ? ctx.out_shape(0) : ctx.in_shape(0);
  WithResizeGeometry(ctx.attributes, x, y, [&](const auto& g) {
    DispatchCuda(ctx.dtype(), [&]<typename S>() {
      const auto launch = [&]<int N, bool kVolumes>() {
        kForward ? Forward<N, kVolumes, S>(ctx, g) : Backward<N, kVolumes, S>(ctx, g);
      };
      constexpr int N = kPackSize<S>;
      const bool packs = g.channels % N == 0 && Aligned(ctx.in<S>(0), ctx.out<S>(0));
      if (x.rank() == 5) {
        packs ? launch.template operator()<N, true>() : launch.template operator()<1, true>();
      } else {
        packs ? launch.template operator()<N, false>() : launch.template operator()<1, false>();
      }
      gpu::CheckLaunch(ctx.op.name.c_str());
    });
  });
}

const CudaKernelRegistration kResize({"resize", &Resize<true>});
const CudaKernelRegistration kResizeBackward({"resize_backward", &Resize<false>});

}  // namespace
}  // namespace plimsoll::ops
