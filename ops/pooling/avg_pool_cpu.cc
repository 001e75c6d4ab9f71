// y[b,i,j,c] = Σ of x[b,h,w,c] over the window (i,j) / n(i,j), dx[b,h,w,c] = Σ of dy[b,i,j,c] /
// n(i,j) over the windows (i,j) that contain (h,w). n(i,j) is the number of elements of the window,
// with or without padding. Threads share the pixels of the result; a vector has neighbouring
// channels. Sums go row by row. Bytes: the input once, the output.
#include "ops/kernel.h"
#include "ops/pooling/pool_pixels.h"
#include "ops/pooling/pool_window.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

int32_t Size(const PoolRange& range) { return range.end - range.begin; }

void AvgPool2d(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const PoolGeometry p = GeometryOf(ctx.attributes, ctx.in_shape(0));
    const bool padded = ctx.attributes.GetBool("count_include_pad");
    const S* x = ctx.in<S>(0);
    S* y = ctx.out<S>(0);
    const PixelLoop loop{p.batch, p.rows.pooled, p.columns.pooled, p.channels * p.window()};
    ForPixels(ctx.pool, loop, [&](const PoolPixel& pixel) {
      const PoolRange rows = p.rows.Elements(pixel.row);
      const PoolRange columns = p.columns.Elements(pixel.column);
      const T n = static_cast<T>(padded ? p.window() : int64_t{Size(rows)} * Size(columns));
      ForVectors<T>(0, p.channels, [&](int64_t c, auto count) {
        Vec<T> sum = {};
        for (int32_t h = rows.begin; h < rows.end; ++h) {
          const S* row = x + (pixel.image * p.rows.size + h) * p.columns.size * p.channels + c;
          for (int32_t w = columns.begin; w < columns.end; ++w) {
            sum += Load<T>(row + w * p.channels, count);
          }
        }
        Store<T>(y + pixel.index * p.channels + c, sum / n, count);
      });
    });
  });
}

void AvgPool2dBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const PoolGeometry p = GeometryOf(ctx.attributes, ctx.out_shape(0));
    const bool padded = ctx.attributes.GetBool("count_include_pad");
    const S* dy = ctx.in<S>(0);
    S* dx = ctx.out<S>(0);
    const PixelLoop loop{p.batch, p.rows.size, p.columns.size, p.channels};
    ForPixels(ctx.pool, loop, [&](const PoolPixel& pixel) {
      const PoolRange rows = p.rows.Windows(pixel.row);
      const PoolRange columns = p.columns.Windows(pixel.column);
      ForVectors<T>(0, p.channels, [&](int64_t c, auto count) {
        Vec<T> sum = {};
        for (int32_t i = rows.begin; i < rows.end; ++i) {
          const int64_t row = (pixel.image * p.rows.pooled + i) * p.columns.pooled;
          const int64_t height = Size(p.rows.Elements(i));
          for (int32_t j = columns.begin; j < columns.end; ++j) {
            const T n = static_cast<T>(padded ? p.window() : height * Size(p.columns.Elements(j)));
            sum += Load<T>(dy + (row + j) * p.channels + c, count) * (1 / n);
          }
        }
        Store<T>(dx + pixel.index * p.channels + c, sum, count);
      });
    });
  });
}

const CpuKernelRegistration kAvgPool2d({"avg_pool2d", &AvgPool2d});
const CpuKernelRegistration kAvgPool2dBackward({"avg_pool2d_backward", &AvgPool2dBackward});

}  // namespace
}  // namespace plimsoll::ops
