// Spare memory of the device by node: what a program's peak leaves elsewhere.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/program.h"

namespace plimsoll::optim {

// By node: how many bytes fewer its temporaries on the device take than those at the peak. Passes
// don't know the planner, and so each tensor counts by itself here, also where the planner will
// find that one takes another's memory in place (memory/lifetimes.h).
std::vector<int64_t> SpareBytes(const graph::Program& program);

}  // namespace plimsoll::optim
