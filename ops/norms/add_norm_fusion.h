// Turns an addition and the norm of its result into one op that reads the sum once.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Replaces each `add` that is directly followed by a `layer_norm` or `rms_norm` of its result (with
// only views between them) by add_layer_norm or add_rms_norm, in the same phase. Runs after
// activations have been tagged and recomputed: a norm that is recomputed from a kept sum stays a
// plain norm. Returns how many were replaced. Results keep their bits, and tensors their lifetimes.
int FuseAddNorm(graph::Program& program);

}  // namespace plimsoll::ops
