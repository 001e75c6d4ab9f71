// Calls write(2) until everything is written.
#pragma once

#include <cstddef>
#include <span>

namespace plimsoll {

// Returns false if writing fails, with the reason in errno; some bytes may have been written. Waits
// for a slow reader, even on a non-blocking pipe.
bool WriteAll(int descriptor, std::span<const std::byte> bytes);

}  // namespace plimsoll
