// Counts heap allocations of the whole process, all threads, C and C++: linking this file replaces
// malloc and its relatives (under sanitizers, which own malloc, it hooks into theirs).
#pragma once

#include <cstdint>

namespace plimsoll {

// Allocations so far (malloc, calloc, realloc, aligned ones, operator new).
int64_t AllocationCount();

}  // namespace plimsoll
