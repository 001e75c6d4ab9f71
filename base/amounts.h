// Formats amounts for messages. For bytes see base/bytes.h.
#pragma once

#include <string>

namespace plimsoll {

// "1h02m", "3m05s", "12s".
std::string FormatDuration(double seconds);
// "38.1k", "1.20M".
std::string FormatCount(double count);
// A mean and its deviation, which is above 0, as far as the deviation lets digits mean anything:
// two digits of it where they are at most 35, otherwise one. "2.806 ± 0.012", "0.010 ± 0.009",
// "(1.2 ± 0.3)e-07". Both keep all digits before the point. `sign`: with a plus, too.
std::string FormatWithDeviation(double mean, double deviation, bool sign = false);

}  // namespace plimsoll
