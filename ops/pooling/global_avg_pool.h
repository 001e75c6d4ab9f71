// The mean of each channel of an image. Lin, Chen, Yan, "Network in network", 2014, section 3.2.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// Images x [B,H,W,C] of any floating type → y [B,C] of the same: means over H and W, which must not
// be empty, summed in float32 (double for double). Throws InternalError for other shapes.
graph::Value GlobalAvgPool(graph::Builder& g, graph::Value x, std::string_view name = "");

}  // namespace plimsoll::ops
