// Max pooling over images.
#pragma once

#include <string_view>

#include "graph/builder.h"
#include "ops/pooling/pool_window.h"

namespace plimsoll::ops {

// Images x [B,H,W,C] of any floating type → y [B,OH,OW,C] of the same, OH = ⌊(H + 2·pad_h −
// kernel_h) / stride_h⌋ + 1: the largest element of each window in each channel. Padding never
// wins, NaN always does. Of equal elements the first wins and receives the gradient.
//
// The window has at most 255 elements: the op also returns which of them won, as u8, for its
// gradient, which does not read x. Throws InternalError for shapes and windows that do not fit
// (InferPooled, ops/pooling/pool_window.h).
graph::Value MaxPool2d(graph::Builder& g, graph::Value x, const Pool2d& window,
                       std::string_view name = "");

}  // namespace plimsoll::ops
