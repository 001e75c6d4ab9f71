// Squared ReLU. So et al. 2021, "Primer: Searching for Efficient Transformers", section 4.1.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// x of any shape → y = max(x, 0)², of the same type.
graph::Value SquaredRelu(graph::Builder& g, graph::Value x, std::string_view name = "");

}  // namespace plimsoll::ops
