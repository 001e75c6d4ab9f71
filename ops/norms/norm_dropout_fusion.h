// Lets norms take in the dropout beside them (ops/norms/norm_dropout.h).
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Runs behind FuseAddNorm and before FuseRecomputedNorms. Two forms become one op each, in the same
// phase:
//
//   d = dropout(f);  sum, y = add_layer_norm(x, d)    where nothing else reads d
//   dx = layer_norm_backward(…);  df = dropout(dx)    dx is left out if nothing else reads it
//
// and the same with rms_norm. Collectives may stand between the latter two. Returns how many were
// replaced. Results keep their bits.
int FuseNormDropout(graph::Program& program);

}  // namespace plimsoll::ops
