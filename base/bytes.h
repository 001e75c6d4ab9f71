// Byte counts: rounded up to multiples, and formatted for messages.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

// Rounds up to the next multiple of `unit` > 0.
inline int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Formats bytes with three significant digits and binary units: "512 B", "1.50 KiB", "23.4 MiB",
// "118 GiB".
std::string FormatBytes(int64_t bytes);

}  // namespace plimsoll
