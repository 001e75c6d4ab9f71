// Ops that move tokens within rows, for models that use only some tokens, add one of their own, or
// make tokens from the patches of an image. B batch, T tokens, D width.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// y = x[:, first:first+count]: x [B,T,D] → y [B,count,D] of the same float type.
graph::Value SliceTokens(graph::Builder& g, graph::Value x, int64_t first, int64_t count,
                         std::string_view name = "");

// The inverse of SliceTokens: y [B,T,D] with x [B,count,D] from token `first` on, and zeros
// elsewhere.
graph::Value PlaceTokens(graph::Builder& g, graph::Value x, int64_t first, int64_t tokens,
                         std::string_view name = "");

// y[b] = concat(token, x[b]) + position: x [B,T,D], token [D], position [T+1,D], one float type →
// y [B,T+1,D], added in float32. (Dosovitskiy et al. 2021, equation 1.)
graph::Value PrependToken(graph::Builder& g, graph::Value x, graph::Value token,
                          graph::Value position, std::string_view name = "");

// Turns images into rows of patches. H height, W width, C channels, p side of a patch: y[b, i·(W/p)
// + j, (r·p + s)·C + c] = x[b, i·p + r, j·p + s, c]: x [B,H,W,C], p divides H and W → y [B,
// (H/p)·(W/p), p²·C] of the same float type. A linear layer of y is a convolution with kernel and
// stride p, whose weight [D,p,p,C] is viewed as [D,p²·C].
graph::Value Patches(graph::Builder& g, graph::Value x, int64_t size, std::string_view name = "");

}  // namespace plimsoll::ops
