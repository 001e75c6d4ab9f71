// Prefetch and eviction: copies between the host and the device around the residency of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/program.h"
#include "optim/host_residency.h"

namespace plimsoll::optim {

// Adds the copies between host and device, and makes the nodes use the copies on the device, as
// described in optim/host_parameters.h.
void EmitTransfers(graph::Program& program, const std::vector<FetchGroup>& groups,
                   std::optional<int64_t> ahead_bytes);

}  // namespace plimsoll::optim
