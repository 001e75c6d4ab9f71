// Pooling over images: the mean or the largest element of each window, or the mean of an image.
#pragma once

#include <string_view>

#include "graph/builder.h"
#include "ops/pooling/pool_window.h"

namespace plimsoll::ops {

struct AvgPool2dOptions {
  // Whether padding counts as zeros: every sum is divided by kernel_h · kernel_w. If not, a sum is
  // divided by the number of the image's elements in its window.
  bool count_include_pad = true;
};

// Images x [B,H,W,C] of any floating type → y [B,OH,OW,C] of the same, OH = ⌊(H + 2·pad_h −
// kernel_h) / stride_h⌋ + 1: the mean of each window in each channel, summed in float32 (double for
// double). Throws InternalError for shapes and windows that do not fit (InferPooled,
// ops/pooling/pool_window.h).
graph::Value AvgPool2d(graph::Builder& g, graph::Value x, const Pool2d& window,
                       const AvgPool2dOptions& options = {}, std::string_view name = "");

// Images x [B,H,W,C] of any floating type → y [B,OH,OW,C] of the same, OH = ⌊(H + 2·pad_h −
// kernel_h) / stride_h⌋ + 1: the largest element of each window in each channel. Padding is never
// the largest, NaN always is. Among equal elements, the first is chosen and receives the gradient.
//
// The window has at most 255 elements: the op also returns which of them was chosen, as u8, for its
// gradient, which does not read x. Throws InternalError for shapes and windows that do not fit
// (InferPooled, ops/pooling/pool_window.h).
graph::Value MaxPool2d(graph::Builder& g, graph::Value x, const Pool2d& window,
                       std::string_view name = "");

// The mean of each channel of an image. Lin, Chen, Yan, "Network in network", 2014, section 3.2.
//
// Images x [B,H,W,C] of any floating type → y [B,C] of the same: means over H and W, which must not
// be empty, summed in float32 (double for double). Throws InternalError for other shapes.
graph::Value GlobalAvgPool(graph::Builder& g, graph::Value x, std::string_view name = "");

}  // namespace plimsoll::ops
