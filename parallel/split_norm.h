// The norm of gradients of which the ranks of an axis have parts:
//
//   %split_norm = global_norm(%a.part, …)                  of this rank's parts
//   %split_norms = all_gather(%split_norm)                 of all ranks: [ranks]
//   %grad_norm = global_norm(%split_norms, %whole, …)      norms add up as elements do
//
// Every rank has the same numbers to add in the end, and so the same bits.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::parallel {

// Lets `norm`, a global_norm that is not in the program yet, read the gathered norm of those of its
// inputs that are in `split`; what makes that is emitted.
void GatherSplitNorm(graph::Builder& g, graph::Node& norm, const std::set<graph::TensorId>& split,
                     std::string_view axis, int64_t ranks);

}  // namespace plimsoll::parallel
