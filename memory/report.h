// A readable report of a memory plan.
#pragma once

#include <string>

#include "memory/plan.h"

namespace plimsoll::memory {

// Several lines: bytes by role, max live, arena and fragmentation, the peak and the tensors alive
// there by role, by scope and by size.
std::string Report(const MemoryPlan& plan);

// One line: "arena 1.20 GiB (max live 1.19 GiB, fragmentation 0.10 %), peak in program …".
std::string Summary(const MemoryPlan& plan);

}  // namespace plimsoll::memory
