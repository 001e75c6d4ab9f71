// Counts the heap allocations of a piece of code, by any thread of the process and by any library.
#pragma once

#include <cstdint>

#include "base/function_ref.h"

namespace plimsoll {

// How often memory was asked for (malloc, new, aligned forms, realloc) while `code` ran.
int64_t CountAllocations(FunctionRef<void()> code);

}  // namespace plimsoll
