// Lets a norm's backward op make the norm again, where the backward pass needs it.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Where a norm is computed again (phase recompute) and its backward op follows, both become
// layer_norm_with_backward or rms_norm_with_backward in the place of the backward op, which reads x
// once. What reads the norm in between (the weight gradient of the layer after it) comes right
// after. Were the statistics computed again too, the forward pass keeps them instead: 4 or 8 bytes
// a row. Left alone when the order matters to another node. Returns how many were replaced. Results
// keep their bits.
int FuseRecomputedNorms(graph::Program& program);

}  // namespace plimsoll::ops
