// The logistic function and the hyperbolic tangent. Their gradients read y, so x need not be kept
// for them.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// x of any shape → y = σ(x) = 1 / (1 + e^−x), of the same type.
graph::Value Sigmoid(graph::Builder& g, graph::Value x, std::string_view name = "");

// x of any shape → y = tanh(x) = 2·σ(2x) − 1, of the same type.
graph::Value Tanh(graph::Builder& g, graph::Value x, std::string_view name = "");

}  // namespace plimsoll::ops
