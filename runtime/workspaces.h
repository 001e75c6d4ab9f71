// Gives kernels their scratch memory as tensors, so that scratch memory is planned like all other
// memory.
#pragma once

#include <cstdint>

#include "graph/program.h"
#include "runtime/device_kind.h"

namespace plimsoll::runtime {

// Bytes of scratch that the op's kernel needs for this call on that kind of device. `threads`
// matters only on the CPU. Works without such a device, and in any build.
int64_t WorkspaceBytes(const graph::OpCall& call, DeviceKind device, int threads);

// Adds a tensor "SCOPE.OP.workspace" (role workspace, float32, one dimension) for each node whose
// kernel needs scratch, and makes it the node's workspace. An existing workspace that is large
// enough is kept. Returns whether anything changed.
bool AddWorkspaces(graph::Program& program, int threads, DeviceKind device = DeviceKind::kCpu);

}  // namespace plimsoll::runtime
