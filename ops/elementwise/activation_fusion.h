// Combines activations with their gradients: where both are computed from the same input, one op
// computes both in one pass over memory, and also sums the gradient's columns for a bias.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Replaces each gelu (swiglu, geglu) that the backward pass recomputes and the gelu_backward
// (swiglu_backward, …) of the same input by one gelu_with_backward (swiglu_with_backward, …) at the
// latter's position. Nodes between them that read the activation or its codes (linear_dw) move
// right after it; where that is not possible the two stay unchanged. Runs after Recompute. Returns
// how many were replaced. Results keep their bits.
int FuseRecomputedActivations(graph::Program& program);

// Lets the op that makes the gradient of a gelu's input also make the gradient of the bias that was
// added to it, so that linear_dw, which did so before, need not read all its dy once more. Returns
// how many moved. Results keep their bits: the sums are added in the same order as in linear_dw.
int FuseBiasGradients(graph::Program& program);

}  // namespace plimsoll::ops
