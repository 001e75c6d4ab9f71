// Subsampling of images (option A of He et al. 2016, "Deep Residual Learning for Image
// Recognition", section 4.1).
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// x[B,H,W,C] → y[B,⌈H/stride⌉,⌈W/stride⌉,channels], floating: the pixels at multiples of `stride`.
// Their channels become those of y from `first_channel` on; the other channels of y are zeros.
// Throws InternalError unless first_channel + C ≤ channels.
graph::Value Subsample(graph::Builder& g, graph::Value x, int64_t stride, int64_t channels,
                       std::string_view name = "", int64_t first_channel = 0);

// The attribute "first_channel" of both ops. Nodes for which it is 0 do not have it.
int64_t FirstChannel(const graph::Attributes& attributes);

}  // namespace plimsoll::ops
