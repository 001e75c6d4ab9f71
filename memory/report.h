// A memory plan for people.
#pragma once

#include <string>

#include "memory/plan.h"

namespace plimsoll::memory {

// Several lines: bytes by role, max live, arena and fragmentation, the peak and what is alive there
// by role, by scope and by size.
std::string Report(const MemoryPlan& plan);

// One line: "plan: arena 1.20 GiB = max live 1.20 GiB + 0.1 %; peak in …".
std::string Summary(const MemoryPlan& plan);

}  // namespace plimsoll::memory
