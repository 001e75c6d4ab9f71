// y[b,o,c] = Σ of w(o,p) · x[b,p,c] over the pixels p that o reads, dx[b,p,c] = Σ of w(o,p) ·
// dy[b,o,c] over the pixels o that read p. w is the product of the weights along the dimensions
// (ops/resize/resize_axis.h). Threads share the pixels of the result; a vector has neighbouring
// channels. Sums go row by row. Bytes: the input once, the output.
#include "ops/kernel.h"
#include "ops/pooling/pool_pixels.h"
#include "ops/resize/resize_geometry.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

// The pixels of x that a pixel of y reads along one dimension.
template <typename Axis, typename T>
struct Taps {
  int32_t pixels[Axis::kTaps];
  T weights[Axis::kTaps];
  // 1 for a dimension of one pixel, such as the depth of images: its pixel is read only once.
  int count;

  Taps(const Axis& axis, int32_t o) : count(axis.in == 1 ? 1 : Axis::kTaps) {
    axis.Read(o, pixels, weights);
    if (axis.in == 1) weights[0] = 1;
  }
};

template <typename S, typename Axis>
void Forward(const CpuContext& ctx, const ResizeGeometry<Axis>& g) {
  using T = Compute<S>;
  const S* const x = ctx.in<S>(0);
  S* const y = ctx.out<S>(0);
  const PixelLoop loop{g.batch, int64_t{g.depth.out} * g.rows.out, g.columns.out,
                       g.channels * Axis::kTaps * Axis::kTaps};
  ForPixels(ctx.pool, loop, [&](const PoolPixel& pixel) {
    const Taps<Axis, T> z(g.depth, pixel.row / g.rows.out), i(g.rows, pixel.row % g.rows.out),
        j(g.columns, pixel.column);
    const S* const image = x + pixel.image * g.in_elements();
    ForVectors<T>(0, g.channels, [&](int64_t c, auto count) {
      Vec<T> sum = {};
      for (int a = 0; a < z.count; ++a) {
        for (int b = 0; b < i.count; ++b) {
          const int64_t row = (int64_t{z.pixels[a]} * g.rows.in + i.pixels[b]) * g.columns.in;
          const T weight = z.weights[a] * i.weights[b];
          for (int d = 0; d < j.count; ++d) {
            sum += Load<T>(image + (row + j.pixels[d]) * g.channels + c, count) *
                   (weight * j.weights[d]);
          }
        }
      }
      Store<T>(y + pixel.index * g.channels + c, sum, count);
    });
  });
}

template <typename S, typename Axis>
void Backward(const CpuContext& ctx, const ResizeGeometry<Axis>& g) {
  using T = Compute<S>;
  const S* const dy = ctx.in<S>(0);
  S* const dx = ctx.out<S>(0);
  const PixelLoop loop{g.batch, int64_t{g.depth.in} * g.rows.in, g.columns.in,
                       g.channels * Axis::kTaps * Axis::kTaps};
  ForPixels(ctx.pool, loop, [&](const PoolPixel& pixel) {
    const int32_t depth = pixel.row / g.rows.in, row = pixel.row % g.rows.in;
    const ResizeRange zs = g.depth.Readers(depth), is = g.rows.Readers(row),
                      js = g.columns.Readers(pixel.column);
    const S* const image = dy + pixel.image * g.out_elements();
    ForVectors<T>(0, g.channels, [&](int64_t c, auto count) {
      Vec<T> sum = {};
      for (int32_t z = zs.begin; z < zs.end; ++z) {
        for (int32_t i = is.begin; i < is.end; ++i) {
          const T weight = g.depth.template Weight<T>(z, depth) * g.rows.template Weight<T>(i, row);
          const S* const line =
              image + (int64_t{z} * g.rows.out + i) * g.columns.out * g.channels + c;
          for (int32_t j = js.begin; j < js.end; ++j) {
            sum += Load<T>(line + j * g.channels, count) *
                   (weight * g.columns.template Weight<T>(j, pixel.column));
          }
        }
      }
      Store<T>(dx + pixel.index * g.channels + c, sum, count);
    });
  });
}

void Resize(const CpuContext& ctx) {
  WithResizeGeometry(ctx.attributes, ctx.in_shape(0), ctx.out_shape(0), [&](const auto& g) {
    DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() { Forward<S>(ctx, g); });
  });
}

void ResizeBackward(const CpuContext& ctx) {
  WithResizeGeometry(ctx.attributes, ctx.out_shape(0), ctx.in_shape(0), [&](const auto& g) {
    DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() { Backward<S>(ctx, g); });
  });
}

const CpuKernelRegistration kResize({"resize", &Resize});
const CpuKernelRegistration kResizeBackward({"resize_backward", &ResizeBackward});

}  // namespace
}  // namespace plimsoll::ops
