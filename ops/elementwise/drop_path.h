// Stochastic depth. Huang et al. 2016, "Deep Networks with Stochastic Depth", section 3, in the
// "inverted" form: complete samples of a residual branch are dropped, and the others are scaled up.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// y[b,…] = 0 with probability p, else x[b,…] / (1 − p), for each sample b of x[B,…]. 0 ≤ p < 1; if
// p = 0, returns x and emits nothing. rng i32[2] = (seed, micro-step). The draw of sample b is word
// b of the Philox stream of `rng` and the node's attribute "key" (base/philox.h). So nothing is
// saved: the gradient is the same op on dy.
graph::Value DropPath(graph::Builder& g, graph::Value x, graph::Value rng, double p,
                      std::string_view name = "");

}  // namespace plimsoll::ops
