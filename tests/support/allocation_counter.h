// Counts the heap allocations of the whole process, by any thread and any library, C and C++:
// linking this replaces malloc and its relatives (under sanitizers, which own malloc, it hooks into
// theirs).
#pragma once

#include <cstdint>

#include "base/function_ref.h"

namespace plimsoll {

// The number of allocations so far (malloc, calloc, realloc, aligned forms, operator new).
int64_t AllocationCount();

// The number of allocations while `code` ran.
int64_t CountAllocations(FunctionRef<void()> code);

}  // namespace plimsoll
