// What debug.find_nan ends a run with.
#pragma once

#include "graph/program.h"

namespace plimsoll::runtime {

// UserError: that output of the node is NaN or infinite at that element.
[[noreturn]] void ThrowNotFinite(const graph::Program& program, int node, graph::TensorId tensor,
                                 int64_t element);

}  // namespace plimsoll::runtime
