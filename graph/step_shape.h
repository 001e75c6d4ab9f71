// Where the parts of a step's program begin. Passes move updates into the backward pass, copies
// between updates and views anywhere, so that "the update" is two facts.
#pragma once

#include <cstddef>

#include "graph/program.h"

namespace plimsoll::graph {

// The first node that updates; the number of nodes, if none does.
size_t FirstUpdate(const Program& program);

// The first node of the update at the end of the program: after it come updates, views, and halves
// of transfers alone. The number of nodes, if the program ends without one.
size_t UpdateTail(const Program& program);

}  // namespace plimsoll::graph
