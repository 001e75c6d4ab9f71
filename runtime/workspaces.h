// Gives kernels their scratch memory as tensors, so that scratch memory is planned like all other
// memory.
#pragma once

#include <cstdint>

#include "base/compute_capability.h"
#include "graph/program.h"
#include "runtime/device_kind.h"

namespace plimsoll::runtime {

// A device for which a program is planned.
struct PlannedDevice {
  DeviceKind kind = DeviceKind::kCpu;
  int threads = 1;             // matters only on the CPU
  ComputeCapability gpu = {};  // matters only on a GPU
};

// Bytes of scratch that the op's kernel needs for this call on that device. Works without such a
// device, and in any build.
int64_t WorkspaceBytes(const graph::OpCall& call, const PlannedDevice& device);

// Adds a tensor "SCOPE.OP.workspace" (role workspace, float32, one dimension) for each node whose
// kernel needs scratch, and makes it the node's workspace. An existing workspace that is large
// enough is kept. Returns whether anything changed.
bool AddWorkspaces(graph::Program& program, const PlannedDevice& device);

}  // namespace plimsoll::runtime
