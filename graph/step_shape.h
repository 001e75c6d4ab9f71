// Where the parts of a step's program begin and end. Passes move updates into the backward pass,
// copies between updates and views anywhere, so that "the update" is two facts. Programs of several
// losses or micro-steps have several forward passes, so that "the end of the forward pass" is two.
// And which gradients the backward pass gives to the update.
#pragma once

#include <cstddef>
#include <map>

#include "graph/program.h"

namespace plimsoll::graph {

// The first node that isn't forward: the end of the first forward pass. The number of nodes, if all
// are forward.
size_t ForwardEnd(const Program& program);

// The place after the last forward node: the end of the last forward pass. 0 without forward nodes.
size_t LastForwardEnd(const Program& program);

// The first node that updates; the number of nodes, if none does.
size_t FirstUpdate(const Program& program);

// The first node of the update at the end of the program: after it come updates, views, and halves
// of transfers alone. The number of nodes, if the program ends without one.
size_t UpdateTail(const Program& program);

// The gradients (OwnedAs::kGradient), by the parameters that the program has. Of several, the last:
// the sum over ranks of those before it.
std::map<TensorId, TensorId> GradientsOf(const Program& program);

}  // namespace plimsoll::graph
