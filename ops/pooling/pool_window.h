// Windows that slide over images, for max_pool2d and avg_pool2d.
#pragma once

#include <cstdint>

#include "graph/op.h"

namespace plimsoll::ops {

// Windows of kernel_h × kernel_w elements, a stride apart, over an image with `pad` more rows and
// columns on each side. As in PyTorch, padding is at most half a window, and a last window that
// would not fit is left out.
struct Pool2d {
  int64_t kernel_h, kernel_w;
  int64_t stride_h, stride_w;
  int64_t pad_h = 0, pad_w = 0;

  // A window with the same sizes in both dimensions.
  static constexpr Pool2d Square(int64_t kernel, int64_t stride, int64_t pad = 0) {
    return {kernel, kernel, stride, stride, pad, pad};
  }
};

graph::Attributes ToAttributes(const Pool2d& window);

// A range of elements or windows along one dimension.
struct PoolRange {
  int32_t begin, end;
};

// Windows along one dimension of an image.
struct PoolAxis {
  int32_t size;    // number of elements of the image
  int32_t pooled;  // number of windows
  int32_t kernel, stride, pad;

  // The index of the window's first element; negative in the padding.
  constexpr int32_t Start(int32_t window) const { return window * stride - pad; }

  // The elements of the image that the window contains. At least one exists, because padding is at
  // most half a window.
  constexpr PoolRange Elements(int32_t window) const {
    const int32_t start = Start(window);
    return {start < 0 ? 0 : start, start + kernel < size ? start + kernel : size};
  }

  // The windows that contain the element; none if the stride skips it.
  constexpr PoolRange Windows(int32_t element) const {
    const int32_t at = element + pad;
    const int32_t last = at / stride + 1;
    return {at < kernel ? 0 : (at - kernel) / stride + 1, last < pooled ? last : pooled};
  }
};

// Windows over the rows and columns of images [batch, rows.size, columns.size, channels].
struct PoolGeometry {
  int64_t batch, channels;
  PoolAxis rows, columns;

  // The number of elements of an image, and of a pooled image.
  constexpr int64_t image_elements() const { return int64_t{rows.size} * columns.size * channels; }
  constexpr int64_t pooled_elements() const {
    return int64_t{rows.pooled} * columns.pooled * channels;
  }
  // The number of elements of a window, including padding.
  constexpr int64_t window() const { return int64_t{rows.kernel} * columns.kernel; }
};

// Throws InternalError, naming the op, when an image has no rows or no columns, and when it has
// 2^31 elements or more, which kernels could not count.
void CheckImage(const graph::OpCall& call, int64_t rows, int64_t columns, int64_t channels);

// The window of a node's attributes over images [B,H,W,C]; only inference checks that it fits.
PoolGeometry GeometryOf(const graph::Attributes& attributes, const graph::Shape& images);

// The type of the pooled result of images x, which are input 0, with the window of the attributes.
// Throws an InternalError that names the op when x is not floating or has another rank, when a
// stride is below 1, when the padding exceeds half a window, when the window exceeds the padded
// image, and where CheckImage does.
graph::TensorType InferPooled(const graph::OpCall& call);

// The type of images of height "h" and width "w", given the gradient dy of the pooled images, which
// is input 0. Throws like InferPooled, and when dy has another shape.
graph::TensorType InferImages(const graph::OpCall& call);

// The attributes of a backward op: those of the forward op, and the size "h" and "w" of its images.
graph::Attributes WithImageSize(graph::Attributes attributes, const graph::Shape& images);

// The cost of a forward op, and of a backward op: one FLOP for each element of each window.
graph::Cost PoolCost(const graph::OpCall& call);
graph::Cost PoolBackwardCost(const graph::OpCall& call);

}  // namespace plimsoll::ops
