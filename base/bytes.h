// Byte counts: rounded up to whole units, and formatted for messages.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

// To the next multiple of `unit` > 0.
inline int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

// "512 B", "1.50 KiB", "23.4 MiB", "118 GiB": three significant digits, binary units.
std::string FormatBytes(int64_t bytes);

}  // namespace plimsoll
