// Rectified linear unit. Nair, Hinton, "Rectified linear units improve restricted Boltzmann
// machines", 2010.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// x of any shape → y = max(x, 0), of the same type; NaN stays NaN. The gradient reads y, so x need
// not be kept for it.
graph::Value Relu(graph::Builder& g, graph::Value x, std::string_view name = "");

}  // namespace plimsoll::ops
