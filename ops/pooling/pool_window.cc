#include "ops/pooling/pool_window.h"

#include <algorithm>
#include <string>

#include "ops/definition.h"

namespace plimsoll::ops {

using graph::Attributes;
using graph::Check;
using graph::OpCall;
using graph::Shape;
using graph::TensorType;

namespace {

// Limits: sums and differences of two such numbers fit in 32 bits.
constexpr int64_t kMostPoolSize = int64_t{1} << 30;
constexpr int64_t kMostImageElements = (int64_t{1} << 31) - 1;

Pool2d WindowOf(const Attributes& attributes) {
  return {attributes.GetInt("kernel_h"), attributes.GetInt("kernel_w"),
          attributes.GetInt("stride_h"), attributes.GetInt("stride_w"),
          attributes.GetInt("pad_h"),    attributes.GetInt("pad_w")};
}

void CheckAxis(const OpCall& call, int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
  Check(kernel >= 1 && kernel <= kMostPoolSize, call, "the window must have 1 to 2^30 elements");
  Check(stride >= 1 && stride <= kMostPoolSize, call, "the stride must be 1 to 2^30");
  Check(pad >= 0 && pad <= kernel / 2, call, "the padding must be at most half the window");
  Check(kernel <= size + 2 * pad, call, "the window must not be larger than the padded image");
}

// Narrows the sizes of an axis, which have been checked before.
PoolAxis MakeAxis(int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
  const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
  return {.size = narrow(size),
          .pooled = narrow((size + 2 * pad - kernel) / stride + 1),
          .kernel = narrow(kernel),
          .stride = narrow(stride),
          .pad = narrow(pad)};
}

// The type of the pooled images for images of this type, which must be floating and of rank 4.
TensorType PooledOf(const OpCall& call, const TensorType& images) {
  const Pool2d window = WindowOf(call.attributes);
  const Shape& shape = images.shape;
  CheckImage(call, shape.dim(1), shape.dim(2), shape.dim(3));
  CheckAxis(call, shape.dim(1), window.kernel_h, window.stride_h, window.pad_h);
  CheckAxis(call, shape.dim(2), window.kernel_w, window.stride_w, window.pad_w);
  const PoolGeometry geometry = GeometryOf(call.attributes, shape);
  // Padding can make the result one row and one column larger than the image.
  CheckImage(call, geometry.rows.pooled, geometry.columns.pooled, shape.dim(3));
  return {images.dtype,
          {shape.dim(0), geometry.rows.pooled, geometry.columns.pooled, shape.dim(3)}};
}

graph::Cost CostOfWindows(const OpCall& call, const Shape& pooled) {
  const Pool2d window = WindowOf(call.attributes);
  const auto elements = static_cast<double>(window.kernel_h * window.kernel_w);
  return {elements * static_cast<double>(pooled.elements()), ArgumentBytes(call)};
}

}  // namespace

void CheckImage(const OpCall& call, int64_t rows, int64_t columns, int64_t channels) {
  Check(rows >= 1 && columns >= 1, call, "images must have rows and columns");
  Check(rows <= kMostPoolSize && columns <= kMostPoolSize &&
            rows * columns <= kMostImageElements / std::max<int64_t>(1, channels),
        call, "an image must have fewer than 2^31 elements");
}

Attributes ToAttributes(const Pool2d& window) {
  return {{"kernel_h", window.kernel_h}, {"kernel_w", window.kernel_w},
          {"stride_h", window.stride_h}, {"stride_w", window.stride_w},
          {"pad_h", window.pad_h},       {"pad_w", window.pad_w}};
}

PoolGeometry GeometryOf(const Attributes& attributes, const Shape& images) {
  const Pool2d window = WindowOf(attributes);
  return {
      .batch = images.dim(0),
      .channels = images.dim(3),
      .rows = MakeAxis(images.dim(1), window.kernel_h, window.stride_h, window.pad_h),
      .columns = MakeAxis(images.dim(2), window.kernel_w, window.stride_w, window.pad_w),
  };
}

TensorType InferPooled(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 4, call, "x must be floating, [B,H,W,C]");
  return PooledOf(call, x);
}

TensorType InferImages(const OpCall& call) {
  const TensorType& dy = call.input(0);
  Check(graph::IsFloat(dy.dtype) && dy.shape.rank() == 4, call, "dy must be floating, [B,OH,OW,C]");
  const TensorType images{
      dy.dtype,
      {dy.shape.dim(0), call.attributes.GetInt("h"), call.attributes.GetInt("w"), dy.shape.dim(3)}};
  const TensorType pooled = PooledOf(call, images);
  Check(dy == pooled, call, "dy must be " + pooled.ToString());
  return images;
}

Attributes WithImageSize(Attributes attributes, const Shape& images) {
  attributes.Set("h", images.dim(1));
  attributes.Set("w", images.dim(2));
  return attributes;
}

graph::Cost PoolCost(const OpCall& call) { return CostOfWindows(call, InferPooled(call).shape); }

graph::Cost PoolBackwardCost(const OpCall& call) {
  return CostOfWindows(call, call.input(0).shape);
}

}  // namespace plimsoll::ops
