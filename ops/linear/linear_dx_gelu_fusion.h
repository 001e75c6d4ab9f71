// Turns the gradient of a linear layer's input and GELU's backward op into one op.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Replaces each 16-bit linear_dx whose result is read only by a gelu_backward (tanh), as dy, by a
// linear_dx_gelu at the latter's position. Returns how many were replaced. On a GPU results change,
// as one rounding is left out; on the CPU they keep their bits.
int FuseGeluGradient(graph::Program& program);

}  // namespace plimsoll::ops
