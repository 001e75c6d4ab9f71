// Ops that reinterpret the same bytes, or select a part of them.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// x in another shape of as many elements; costs nothing.
graph::Value View(graph::Builder& g, graph::Value x, const graph::Shape& shape,
                  std::string_view name = "");

// As many elements of x as the shape has, from the first on in memory order; carried, and where x
// is, as x. Not differentiable.
graph::Value Slice(graph::Builder& g, graph::Value x, int64_t first, const graph::Shape& shape,
                   std::string_view name = "");

// x, but no gradient flows back through it: nodes that only such a gradient needs are neither
// computed nor saved.
graph::Value StopGradient(graph::Builder& g, graph::Value x, std::string_view name = "");

// y[b] = x[b, index[b]]: x [B,T,D], index i32[B] in [0, T) → y [B,D]. Not differentiable. An index
// out of range is an InternalError when the op runs.
graph::Value SelectRows(graph::Builder& g, graph::Value x, graph::Value index,
                        std::string_view name = "");

}  // namespace plimsoll::ops
