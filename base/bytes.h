// Formats byte counts for messages.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

// "512 B", "1.50 KiB", "23.4 MiB", "118 GiB": three significant digits, binary units.
std::string FormatBytes(int64_t bytes);

}  // namespace plimsoll
