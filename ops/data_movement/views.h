// Ops that reinterpret the same bytes, or select a part of them.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// x with another shape that has the same number of elements; costs nothing.
graph::Value View(graph::Builder& g, graph::Value x, const graph::Shape& shape,
                  std::string_view name = "");

// A view of consecutive elements of x in memory order: it begins at element `first` and has the
// given shape. It is carried if x is, and in the same memory. Not differentiable.
graph::Value Slice(graph::Builder& g, graph::Value x, int64_t first, const graph::Shape& shape,
                   std::string_view name = "");

// Returns x, but its gradient does not flow back: nodes that only this gradient needs are neither
// computed nor saved.
graph::Value StopGradient(graph::Builder& g, graph::Value x, std::string_view name = "");

// y[b] = x[b, index[b]]: x [B,T,D], index i32[B] in [0, T) → y [B,D]. Not differentiable. An index
// out of range is an InternalError when the op runs.
graph::Value SelectRows(graph::Builder& g, graph::Value x, graph::Value index,
                        std::string_view name = "");

}  // namespace plimsoll::ops
