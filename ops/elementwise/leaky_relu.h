// Leaky rectified linear unit. Maas, Hannun, Ng, "Rectifier nonlinearities improve neural network
// acoustic models", 2013.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// x of any shape → y = x where x > 0, otherwise slope · x, of the same type; NaN stays NaN. The
// gradient reads y, which has the sign of x as 0 < slope < 1, so x need not be kept for it. Throws
// InternalError for other slopes.
graph::Value LeakyRelu(graph::Builder& g, graph::Value x, double slope, std::string_view name = "");

}  // namespace plimsoll::ops
