// y[b,i,j,first+c] = x[b,i·stride,j·stride,c], and 0 in all other channels; dx is the inverse.
// Threads share rows of pixels. Bytes: the elements read of x, and all of y; backward the elements
// read of dy, and all of dx.
#include <algorithm>

#include "ops/data_movement/subsample.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

// Calls visit(row, first) for the rows [0, B·H) of images of that shape in parallel; `first` is the
// index of the row's first element.
template <typename Visit>
void ForImageRows(ThreadPool& pool, const graph::Shape& shape, const Visit& visit) {
  const int64_t elements = shape.dim(2) * shape.dim(3);
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / elements);
  pool.ParallelFor(shape.dim(0) * shape.dim(1), grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) visit(row, row * elements);
  });
}

void Subsample(const CpuContext& ctx) {
  const graph::Shape &from = ctx.in_shape(0), &to = ctx.out_shape(0);
  const int64_t stride = ctx.attributes.GetInt("stride"), channels = from.dim(3);
  const int64_t first_channel = FirstChannel(ctx.attributes);
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const S* const x = ctx.in<S>(0);
    S* const y = ctx.out<S>(0);
    ForImageRows(ctx.pool, to, [&](int64_t row, int64_t first) {
      const int64_t image = row / to.dim(1), i = row % to.dim(1) * stride;
      for (int64_t j = 0; j < to.dim(2); ++j) {
        const int64_t pixel = (image * from.dim(1) + i) * from.dim(2) + j * stride;
        S* const out = y + first + j * to.dim(3);
        S* const taken = out + first_channel;
        std::fill(out, taken, S());
        std::copy_n(x + pixel * channels, channels, taken);
        std::fill(taken + channels, out + to.dim(3), S());
      }
    });
  });
}

void SubsampleBackward(const CpuContext& ctx) {
  const graph::Shape &from = ctx.in_shape(0), &to = ctx.out_shape(0);
  const int64_t stride = ctx.attributes.GetInt("stride"), channels = to.dim(3);
  const int64_t first_channel = FirstChannel(ctx.attributes);
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const S* const dy = ctx.in<S>(0);
    S* const dx = ctx.out<S>(0);
    ForImageRows(ctx.pool, to, [&](int64_t row, int64_t first) {
      const int64_t image = row / to.dim(1), i = row % to.dim(1);
      std::fill_n(dx + first, to.dim(2) * channels, S());
      if (i % stride != 0) return;
      for (int64_t j = 0; j < from.dim(2); ++j) {
        const int64_t pixel = (image * from.dim(1) + i / stride) * from.dim(2) + j;
        std::copy_n(dy + pixel * from.dim(3) + first_channel, channels,
                    dx + first + j * stride * channels);
      }
    });
  });
}

const CpuKernelRegistration kSubsample({"subsample", &Subsample});
const CpuKernelRegistration kSubsampleBackward({"subsample_backward", &SubsampleBackward});

}  // namespace
}  // namespace plimsoll::ops
