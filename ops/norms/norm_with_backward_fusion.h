// Lets a norm's backward op also recompute the norm, where the backward pass needs it.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Where a norm is recomputed (phase recompute) and its backward op follows, both become one
// layer_norm_with_backward or rms_norm_with_backward at the position of the backward op, which
// reads x once. Nodes that read the norm in between (the weight gradient of the layer after it)
// move right after it. If the statistics were recomputed too, the forward pass keeps them instead:
// 4 or 8 bytes per row. Left unchanged when the order matters to another node. Returns how many
// were replaced. Results keep their bits.
int FuseRecomputedNorms(graph::Program& program);

}  // namespace plimsoll::ops
