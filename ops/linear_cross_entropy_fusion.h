// Turns a loss and its backward op into one op that makes the logits once instead of twice.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Replaces each linear_cross_entropy whose lse only its linear_cross_entropy_backward reads by
// linear_cross_entropy_train, in the place of the forward op. What dloss and the given gradient are
// computed from moves before it; a loss whose dloss depends on the loss itself stays as it is, and
// so does one whose operands or results are touched between the two ops. Returns how many were
// replaced. Results keep their bits.
int FuseLossBackward(graph::Program& program);

}  // namespace plimsoll::ops
