// Combines activations with their gradients: if both are computed from the same input, one op
// computes both in one pass over memory, and also sums the gradient's columns for a bias.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Fuses each gelu (swiglu, geglu) that the backward pass recomputes with the gelu_backward
// (swiglu_backward, …) of the same input into one gelu_with_backward (swiglu_with_backward, …) at
// the latter's position. Nodes between them that read the activation or its codes (linear_dw) move
// right after it; if they cannot move, the two stay unchanged. Runs after Recompute. Returns how
// many were fused. Results keep their bits.
int FuseRecomputedActivations(graph::Program& program);

// Moves the gradient of a bias into the op that makes the gradient of the GELU after the bias.
// Before, linear_dw summed it, which reads all of dy once more. Returns how many were moved.
// Results keep their bits: the sums are added in the same order as in linear_dw.
int FuseBiasGradients(graph::Program& program);

}  // namespace plimsoll::ops
