// Layer normalisation over the last dimension. Ba, Kiros, Hinton, "Layer normalization", 2016,
// eq. 4.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// y = (x − mean) · rstd · weight (+ bias), rstd = 1 / √(variance + eps), with the biased variance
// of the row (divided by D). x [...,D], weight [D], bias [D] or kNoTensor → y [...,D]. The op also
// returns mean and rstd of each row, for its gradient.
graph::Value LayerNorm(graph::Builder& g, graph::Value x, graph::Value weight, graph::Value bias,
                       double eps, std::string_view name = "");

}  // namespace plimsoll::ops
