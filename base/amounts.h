// Formats amounts for messages. For bytes see base/bytes.h.
#pragma once

#include <string>

namespace plimsoll {

// "1h02m", "3m05s", "12s".
std::string FormatDuration(double seconds);
// "38.1k", "1.20M".
std::string FormatCount(double count);

}  // namespace plimsoll
