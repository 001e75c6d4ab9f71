// Where the parts of a step's program begin and end, and which gradients the backward pass gives to
// the update. Two functions find "the update", because passes move updates into the backward pass,
// copies between updates, and views anywhere. Two functions find "the end of the forward pass",
// because programs of several losses or micro-steps have several forward passes.
#pragma once

#include <cstddef>
#include <map>

#include "graph/program.h"

namespace plimsoll::graph {

// The index of the first node that isn't forward: the end of the first forward pass. The number of
// nodes, if all are forward.
size_t ForwardEnd(const Program& program);

// The index after the last forward node: the end of the last forward pass. 0 without forward nodes.
size_t LastForwardEnd(const Program& program);

// The index of the first node that updates; the number of nodes, if none does.
size_t FirstUpdate(const Program& program);

// The index of the first node of the update at the end of the program: after it come only updates,
// views, and halves of transfers. The number of nodes, if the program ends without an update.
size_t UpdateTail(const Program& program);

// By parameter of the program: its gradient (OwnedAs::kGradient). If it has several gradients, the
// last one, which is the sum over ranks of the others.
std::map<TensorId, TensorId> GradientsOf(const Program& program);

}  // namespace plimsoll::graph
