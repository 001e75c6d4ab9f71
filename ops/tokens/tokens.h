// Moving tokens within rows, for models that look at some tokens only or add one of their own.
// B batch, T tokens, D width.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// y = x[:, first:first+count]: x [B,T,D] → y [B,count,D] of the same float type.
graph::Value SliceTokens(graph::Builder& g, graph::Value x, int64_t first, int64_t count,
                         std::string_view name = "");

// The reverse: y [B,T,D] with x [B,count,D] from token `first` on, and zeros elsewhere.
graph::Value PlaceTokens(graph::Builder& g, graph::Value x, int64_t first, int64_t tokens,
                         std::string_view name = "");

// y[b] = concat(token, x[b]) + position: x [B,T,D], token [D], position [T+1,D], one float type →
// y [B,T+1,D], added in float32. (Dosovitskiy et al. 2021, equation 1.)
graph::Value PrependToken(graph::Builder& g, graph::Value x, graph::Value token,
                          graph::Value position, std::string_view name = "");

}  // namespace plimsoll::ops
