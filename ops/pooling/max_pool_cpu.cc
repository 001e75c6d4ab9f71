// y[b,i,j,c] = max of x[b,h,w,c] over the window (i,j),   index its position in the window,
// dx[b,h,w,c] = Σ of dy[b,i,j,c] over the windows (i,j) that chose (h,w). Threads share the pixels
// of the result; a vector has neighbouring channels. dx is gathered: each element adds its windows
// row by row. Bytes: forward x once, y and index; backward dy and index once, dx.
#include <limits>

#include "ops/kernel.h"
#include "ops/pooling/pool_pixels.h"
#include "ops/pooling/pool_window.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

// Loads positions in a window. They are at most 254, and so exact in every type.
template <typename T>
Vec<T> LoadPositions(const uint8_t* from, int count) {
  T lanes[kLanes<T>] = {};
  for (int i = 0; i < count; ++i) lanes[i] = from[i];
  return Load<T>(lanes);
}

template <typename T>
void StorePositions(uint8_t* to, Vec<T> v, int count) {
  for (int i = 0; i < count; ++i) to[i] = static_cast<uint8_t>(v[i]);
}

template <typename S, bool kIndex>
void Forward(const CpuContext& ctx) {
  using T = Compute<S>;
  const PoolGeometry p = GeometryOf(ctx.attributes, ctx.in_shape(0));
  const S* x = ctx.in<S>(0);
  S* y = ctx.out<S>(0);
  uint8_t* index = ctx.out<uint8_t>(1);
  const PixelLoop loop{p.batch, p.rows.pooled, p.columns.pooled, p.channels * p.window()};
  ForPixels(ctx.pool, loop, [&](const PoolPixel& pixel) {
    const PoolRange rows = p.rows.Elements(pixel.row);
    const PoolRange columns = p.columns.Elements(pixel.column);
    const int32_t top = p.rows.Start(pixel.row), left = p.columns.Start(pixel.column);
    ForVectors<T>(0, p.channels, [&](int64_t c, auto count) {
      // If all elements are −∞, the first one wins.
      Vec<T> best = Splat<T>(-std::numeric_limits<T>::infinity());
      Vec<T> chosen = Splat<T>((rows.begin - top) * p.columns.kernel + columns.begin - left);
      for (int32_t h = rows.begin; h < rows.end; ++h) {
        const S* row = x + (pixel.image * p.rows.size + h) * p.columns.size * p.channels + c;
        for (int32_t w = columns.begin; w < columns.end; ++w) {
          const Vec<T> v = Load<T>(row + w * p.channels, count);
          const auto better = (v > best) | (v != v);
          best = better ? v : best;
          if constexpr (kIndex) {
            const int32_t position = (h - top) * p.columns.kernel + w - left;
            chosen = better ? Splat<T>(position) : chosen;
          }
        }
      }
      const int64_t at = pixel.index * p.channels + c;
      Store<T>(y + at, best, count);
      if constexpr (kIndex) StorePositions<T>(index + at, chosen, count);
    });
  });
}

void MaxPool2d(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    ctx.has_output(1) ? Forward<S, true>(ctx) : Forward<S, false>(ctx);
  });
}

void MaxPool2dBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const PoolGeometry p = GeometryOf(ctx.attributes, ctx.out_shape(0));
    const S* dy = ctx.in<S>(0);
    const uint8_t* index = ctx.in<uint8_t>(1);
    S* dx = ctx.out<S>(0);
    const PixelLoop loop{p.batch, p.rows.size, p.columns.size, p.channels};
    ForPixels(ctx.pool, loop, [&](const PoolPixel& pixel) {
      const PoolRange rows = p.rows.Windows(pixel.row);
      const PoolRange columns = p.columns.Windows(pixel.column);
      ForVectors<T>(0, p.channels, [&](int64_t c, auto count) {
        Vec<T> sum = {};
        for (int32_t i = rows.begin; i < rows.end; ++i) {
          const int64_t row = (pixel.image * p.rows.pooled + i) * p.columns.pooled;
          for (int32_t j = columns.begin; j < columns.end; ++j) {
            const int64_t at = (row + j) * p.channels + c;
            const int32_t position = (pixel.row - p.rows.Start(i)) * p.columns.kernel +
                                     pixel.column - p.columns.Start(j);
            const Vec<T> d = Load<T>(dy + at, count);
            sum += LoadPositions<T>(index + at, count) == Splat<T>(position) ? d : Vec<T>{};
          }
        }
        Store<T>(dx + pixel.index * p.channels + c, sum, count);
      });
    });
  });
}

const CpuKernelRegistration kMaxPool2d({"max_pool2d", &MaxPool2d});
const CpuKernelRegistration kMaxPool2dBackward({"max_pool2d_backward", &MaxPool2dBackward});

}  // namespace
}  // namespace plimsoll::ops
