// Turns the gradient of a linear layer's input and GELU's backward op into one op.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Replaces each linear_dx in 16 bits whose result only a gelu_backward (tanh) reads, as dy, by
// linear_dx_gelu in the place of the latter. Returns how many were replaced. On a GPU results
// change by a rounding that is left out; on the CPU they keep their bits.
int FuseGeluGradient(graph::Program& program);

}  // namespace plimsoll::ops
