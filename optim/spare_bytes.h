// The device memory that a program leaves free at each node, compared with its peak.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/program.h"

namespace plimsoll::optim {

// By node: the bytes of device temporaries alive at the peak minus those alive at the node. Each
// tensor counts separately, even if the planner will let it reuse the memory of another tensor in
// place (memory/lifetimes.h), because passes don't know the planner.
std::vector<int64_t> SpareBytes(const graph::Program& program);

}  // namespace plimsoll::optim
