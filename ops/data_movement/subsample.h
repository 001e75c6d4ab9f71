// Subsampling of images (option A of He et al. 2016, "Deep Residual Learning for Image
// Recognition", section 4.1).
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// x[B,H,W,C] → y[B,⌈H/stride⌉,⌈W/stride⌉,channels], floating: the pixels at multiples of `stride`.
// Their channels are those from `first_channel` on of y, whose other channels are zeros;
// first_channel + C ≤ channels. InternalError otherwise.
graph::Value Subsample(graph::Builder& g, graph::Value x, int64_t stride, int64_t channels,
                       std::string_view name = "", int64_t first_channel = 0);

// The attribute "first_channel" of both ops. Nodes where it is 0 do not have it.
int64_t FirstChannel(const graph::Attributes& attributes);

}  // namespace plimsoll::ops
