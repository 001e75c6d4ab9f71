// Images as rows of patches. B batch, H height, W width, C channels, p side of a patch.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// y[b, i·(W/p) + j, (r·p + s)·C + c] = x[b, i·p + r, j·p + s, c]: x [B,H,W,C], p divides H and W →
// y [B, (H/p)·(W/p), p²·C] of the same float type. A linear layer of it is a convolution with
// kernel and stride p, whose weight [D,p,p,C] is viewed as [D,p²·C].
graph::Value Patches(graph::Builder& g, graph::Value x, int64_t size, std::string_view name = "");

}  // namespace plimsoll::ops
