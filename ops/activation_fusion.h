// Activations and their gradients in one op: where both are computed from the same input, one pass
// over memory makes both, and the column sums of the gradient, a bias's gradient, on the way.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Replaces each gelu (swiglu) that the backward pass computes again, and the gelu_backward
// (swiglu_backward) of the same input, by gelu_with_backward (swiglu_with_backward) in the place of
// the latter. What reads the activation between the two, linear_dw, comes right after it; where
// that is not possible the two stay as they are. For after Recompute. Returns how many were
// replaced. Results keep their bits.
int FuseRecomputedActivations(graph::Program& program);

// Lets the op that makes the gradient of a gelu's input also make the gradient of the bias that was
// added to it: linear_dw, which did, need not read all its dy once more. Returns how many moved.
// Results keep their bits: the sums are added up in the order in which linear_dw does.
int FuseBiasGradients(graph::Program& program);

}  // namespace plimsoll::ops
