// Gives kernels their scratch memory as tensors, so that it is planned like all else.
#pragma once

#include <cstdint>

#include "graph/program.h"
#include "runtime/device_kind.h"

namespace plimsoll::runtime {

// Scratch that the op's kernel wants for such a call on that kind of device; `threads` matter on
// the CPU alone. Needs no such device, and no build for it.
int64_t WorkspaceBytes(const graph::OpCall& call, DeviceKind device, int threads);

// For each node whose kernel wants scratch: adds a tensor "SCOPE.OP.workspace" (role workspace,
// float32, one dimension) and makes it the node's workspace. A workspace that is there already and
// large enough is kept. Returns whether anything changed.
bool AddWorkspaces(graph::Program& program, int threads, DeviceKind device = DeviceKind::kCpu);

}  // namespace plimsoll::runtime
