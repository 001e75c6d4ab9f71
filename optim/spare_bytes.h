// The device memory that a program leaves free at each node, compared with its peak.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/program.h"

namespace plimsoll::optim {

// By node: the bytes of device temporaries alive at the peak minus those alive at the node. Each
// tensor counts, even where the planner will let one reuse another's memory in place
// (memory/lifetimes.h): passes don't know the planner.
std::vector<int64_t> SpareBytes(const graph::Program& program);

}  // namespace plimsoll::optim
