// Turns a loss and its backward op into one op that computes the logits once instead of twice.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Replaces each linear_cross_entropy whose lse is read only by its linear_cross_entropy_backward by
// linear_cross_entropy_train, at the position of the forward op. The nodes that compute dloss and
// the given gradient move before it. A loss stays unchanged if its dloss depends on the loss
// itself, or if its operands or results are accessed between the two ops. Returns how many were
// replaced. Results keep their bits.
int FuseLossBackward(graph::Program& program);

}  // namespace plimsoll::ops
