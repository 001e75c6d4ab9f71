// y[b,i,j,(u·s+v)·C+c] = x[b,i·s−pad_h+u,j·s−pad_w+v,c], where s is the block; 0 outside of x and
// in channels from s²·C on. dx is the inverse; 0 in pixels of no block. The s·C elements of a
// block's row are adjacent in x and in y: they are copied as one run. Threads share rows of pixels.
// Bytes: the elements read of x, and all of y; backward the elements read of dy, and all of dx.
#include <algorithm>

#include "ops/data_movement/space_to_depth.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

// The sizes of a call between images x and the block images y.
struct BlockRows {
  int64_t block, pad_h, run, x_height, x_row, y_height, y_width, channels, skipped;

  BlockRows(const graph::Attributes& attributes, const graph::Shape& x, const graph::Shape& y)
      : block(attributes.GetInt("block")),
        pad_h(attributes.GetInt("pad_h")),
        run(block * x.dim(3)),
        x_height(x.dim(1)),
        x_row(x.dim(2) * x.dim(3)),
        y_height(y.dim(1)),
        y_width(y.dim(2)),
        channels(y.dim(3)),
        skipped(attributes.GetInt("pad_w") * x.dim(3)) {}

  int64_t y_row() const { return y_width * channels; }

  // Calls visit(in_x, in_y, count) for the parts of a row of x that are in blocks. A part begins at
  // element in_x of the row, and at element in_y of the row of y, for u = 0.
  template <typename Visit>
  void ForRuns(const Visit& visit) const {
    for (int64_t j = 0; j < y_width; ++j) {
      const int64_t first = j * run - skipped;
      const int64_t begin = std::max<int64_t>(first, 0), end = std::min(first + run, x_row);
      if (begin < end) visit(begin, j * channels + begin - first, end - begin);
    }
  }
};

// Calls visit(row) for the rows [0, rows), which have `elements` elements each, in parallel.
template <typename Visit>
void ForRows(ThreadPool& pool, int64_t rows, int64_t elements, const Visit& visit) {
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(1, elements));
  pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) visit(row);
  });
}

void SpaceToDepth(const CpuContext& ctx) {
  const BlockRows rows(ctx.attributes, ctx.in_shape(0), ctx.out_shape(0));
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const S* const x = ctx.in<S>(0);
    S* const y = ctx.out<S>(0);
    ForRows(ctx.pool, ctx.out_shape(0).dim(0) * rows.y_height, rows.y_row(), [&](int64_t row) {
      const int64_t image = row / rows.y_height;
      const int64_t top = row % rows.y_height * rows.block - rows.pad_h;
      S* const out = y + row * rows.y_row();
      std::fill_n(out, rows.y_row(), S());
      for (int64_t u = 0; u < rows.block; ++u) {
        if (top + u < 0 || top + u >= rows.x_height) continue;
        const S* const from = x + (image * rows.x_height + top + u) * rows.x_row;
        rows.ForRuns([&](int64_t in_x, int64_t in_y, int64_t count) {
          std::copy_n(from + in_x, count, out + u * rows.run + in_y);
        });
      }
    });
  });
}

void SpaceToDepthBackward(const CpuContext& ctx) {
  const BlockRows rows(ctx.attributes, ctx.out_shape(0), ctx.in_shape(0));
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const S* const dy = ctx.in<S>(0);
    S* const dx = ctx.out<S>(0);
    ForRows(ctx.pool, ctx.out_shape(0).dim(0) * rows.x_height, rows.x_row, [&](int64_t row) {
      const int64_t image = row / rows.x_height, below = row % rows.x_height + rows.pad_h;
      const int64_t i = below / rows.block, u = below % rows.block;
      S* const out = dx + row * rows.x_row;
      std::fill_n(out, rows.x_row, S());
      if (i >= rows.y_height) return;
      const S* const from = dy + (image * rows.y_height + i) * rows.y_row() + u * rows.run;
      rows.ForRuns([&](int64_t in_x, int64_t in_y, int64_t count) {
        std::copy_n(from + in_y, count, out + in_x);
      });
    });
  });
}

const CpuKernelRegistration kSpaceToDepth({"space_to_depth", &SpaceToDepth});
const CpuKernelRegistration kSpaceToDepthBackward({"space_to_depth_backward",
                                                   &SpaceToDepthBackward});

}  // namespace
}  // namespace plimsoll::ops
