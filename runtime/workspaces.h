// Gives CPU kernels their scratch memory as tensors, so that it is planned like all else.
#pragma once

#include "graph/program.h"

namespace plimsoll::runtime {

// For each node whose CPU kernel wants scratch with that many threads: adds a tensor
// "SCOPE.OP.workspace" (role workspace, float32, one dimension) and makes it the node's workspace.
// A workspace that is there already and large enough is kept. Returns whether anything changed.
bool AddWorkspaces(graph::Program& program, int threads);

}  // namespace plimsoll::runtime
