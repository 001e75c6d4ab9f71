// The error with which debug.find_nan ends a run.
#pragma once

#include "graph/program.h"

namespace plimsoll::runtime {

// Throws a UserError: that output of the node is NaN or infinite at that element.
[[noreturn]] void ThrowNotFinite(const graph::Program& program, int node, graph::TensorId tensor,
                                 int64_t element);

}  // namespace plimsoll::runtime
