// Turns an addition and the norm of its result into one op that reads the sum once.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Replaces each `add` that a `layer_norm` or `rms_norm` of its result directly follows (views
// between them apart) by add_layer_norm or add_rms_norm, in the same phase. A program is fused
// after its activations have been tagged and recomputed: a norm that is computed again from a sum
// that was kept stays a plain norm. Returns how many were replaced. Results keep their bits, and
// tensors their lifetimes.
int FuseAddNorm(graph::Program& program);

}  // namespace plimsoll::ops
