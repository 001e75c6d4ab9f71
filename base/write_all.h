// write(2) until all is written.
#pragma once

#include <cstddef>
#include <span>

namespace plimsoll {

// False when it cannot be, with the reason in errno; some of it may have been written then. Waits
// where the reader is slow, also of a pipe that would rather not wait.
bool WriteAll(int descriptor, std::span<const std::byte> bytes);

}  // namespace plimsoll
