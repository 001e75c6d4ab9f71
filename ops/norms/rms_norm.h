// Root mean square normalisation over the last dimension. Zhang, Sennrich, "Root mean square layer
// normalization", 2019, eq. 4.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// y = x · rstd · weight, rstd = 1 / √(mean of x² + eps). x [...,D], weight [D] → y [...,D]. The op
// also returns rstd of each row, for its gradient.
graph::Value RmsNorm(graph::Builder& g, graph::Value x, graph::Value weight, double eps,
                     std::string_view name = "");

}  // namespace plimsoll::ops
