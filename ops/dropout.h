// Dropout. Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting",
// 2014, in the "inverted" form: kept elements are scaled up.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// y[i] = 0 with probability p, else x[i] / (1 − p). x of any shape, 0 ≤ p < 1; p = 0 gives x itself
// and emits nothing. rng i32[2] = (seed, micro-step). The draw of element i is word i of the Philox
// stream of `rng` and the node's attribute "key" (base/philox.h), so that nothing is saved: the
// gradient is the same op on dy.
graph::Value Dropout(graph::Builder& g, graph::Value x, graph::Value rng, double p,
                     std::string_view name = "");

}  // namespace plimsoll::ops
