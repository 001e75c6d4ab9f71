// Computes the norm of sharded gradients, whose parts are on the ranks of an axis:
//
//   %split_norm = global_norm(%a.part, …)                  of this rank's parts
//   %split_norms = all_gather(%split_norm)                 of all ranks: [ranks]
//   %grad_norm = global_norm(%split_norms, %whole, …)      norms add up as elements do
//
// In the last step every rank adds the same numbers, and so gets the same bits.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::parallel {

// Changes `norm`, a global_norm that is not in the program yet: the gathered norm of the sharded
// gradients replaces its inputs that are in `split`. Emits the nodes that compute the gathered
// norm.
void GatherSplitNorm(graph::Builder& g, graph::Node& norm, const std::set<graph::TensorId>& split,
                     std::string_view axis, int64_t ranks);

}  // namespace plimsoll::parallel
