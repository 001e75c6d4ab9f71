// y[b,c] = Σ of x[b,h,w,c] over all pixels / (H·W),   dx[b,h,w,c] = dy[b,c] / (H·W). Forward:
// threads share tiles of kSumColumns channels of an image, and sum the pixels of a tile in blocks
// as in ops/reductions/cpu_column_sums.h. Backward: threads share the pixels. Bytes: the input
// once, the output.
#include <algorithm>

#include "ops/kernel.h"
#include "ops/pooling/pool_pixels.h"
#include "ops/reductions/cpu_column_sums.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void GlobalAvgPool(const CpuContext& ctx) {
  const graph::Shape& shape = ctx.in_shape(0);
  const int64_t pixels = shape.dim(1) * shape.dim(2), channels = shape.dim(3);
  const int64_t tiles = (channels + kSumColumns - 1) / kSumColumns;
  const int64_t work = std::max<int64_t>(1, pixels * std::min(channels, kSumColumns));
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / work);
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const S* all_x = ctx.in<S>(0);
    S* all_y = ctx.out<S>(0);
    ctx.pool.ParallelFor(shape.dim(0) * tiles, grain, [&](int64_t begin, int64_t end) {
      alignas(64) T part[kSumColumns], sums[kSumColumns];
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t image = tile / tiles, first = tile % tiles * kSumColumns;
        const int64_t columns = std::min(kSumColumns, channels - first);
        const S* x = all_x + image * pixels * channels + first;
        S* y = all_y + image * channels + first;
        std::fill(sums, sums + columns, T(0));
        for (int64_t r = 0; r < pixels; r += kSumRows) {
          AddRows(x + r * channels, std::min(kSumRows, pixels - r), channels, columns, part);
          for (int64_t c = 0; c < columns; ++c) sums[c] += part[c];
        }
        const T n = static_cast<T>(pixels);
        ForVectors<T>(0, columns, [&](int64_t c, auto count) {
          Store<T>(y + c, Load<T>(sums + c, count) / n, count);
        });
      }
    });
  });
}

void GlobalAvgPoolBackward(const CpuContext& ctx) {
  const graph::Shape& shape = ctx.out_shape(0);
  const int64_t channels = shape.dim(3);
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const S* dy = ctx.in<S>(0);
    S* dx = ctx.out<S>(0);
    const T n = static_cast<T>(shape.dim(1) * shape.dim(2));
    const PixelLoop loop{shape.dim(0), shape.dim(1), shape.dim(2), channels};
    ForPixels(ctx.pool, loop, [&](const PoolPixel& pixel) {
      ForVectors<T>(0, channels, [&](int64_t c, auto count) {
        const Vec<T> d = Load<T>(dy + pixel.image * channels + c, count);
        Store<T>(dx + pixel.index * channels + c, d / n, count);
      });
    });
  });
}

const CpuKernelRegistration kGlobalAvgPool({"global_avg_pool", &GlobalAvgPool});
const CpuKernelRegistration kGlobalAvgPoolBackward({"global_avg_pool_backward",
                                                    &GlobalAvgPoolBackward});

}  // namespace
}  // namespace plimsoll::ops
