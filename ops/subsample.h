// Subsampling of images (option A of He et al. 2016, "Deep Residual Learning for Image
// Recognition", section 4.1).
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// x[B,H,W,C] → y[B,⌈H/stride⌉,⌈W/stride⌉,channels], floating: the pixels at multiples of `stride`,
// with zeros for the channels from C on; channels ≥ C. InternalError otherwise.
graph::Value Subsample(graph::Builder& g, graph::Value x, int64_t stride, int64_t channels,
                       std::string_view name = "");

}  // namespace plimsoll::ops
