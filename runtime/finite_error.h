// The error that ends a run with debug.find_nan.
#pragma once

#include "graph/program.h"

namespace plimsoll::runtime {

// Throws a UserError which says that element `element` of the node's output `tensor` is NaN or
// infinite.
[[noreturn]] void ThrowNotFinite(const graph::Program& program, int node, graph::TensorId tensor,
                                 int64_t element);

}  // namespace plimsoll::runtime
