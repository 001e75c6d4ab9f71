// Formats durations, counts and means for messages. For bytes see base/bytes.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

// Formats a duration: "1h02m", "3m05s", "12s".
std::string FormatDuration(double seconds);
// Formats a count: "38.1k", "1.20M".
std::string FormatCount(double count);
// A count and its noun, which is given in the singular: "1 sequence", "2 sequences", "3 classes",
// "4 entries".
std::string Counted(int64_t count, std::string_view noun);
// The same for a number that is formatted already: "1 epoch", "1.5 epochs".
std::string Counted(std::string_view number, std::string_view noun);
// Formats a mean and its standard deviation, which is above 0, with as many digits as the deviation
// makes meaningful: two digits of the deviation if they are at most 35, otherwise one. "2.806 ±
// 0.012", "0.010 ± 0.009", "(1.2 ± 0.3)e-07". Digits before the decimal point are always kept.
// `sign`: whether a positive mean gets a plus sign.
std::string FormatWithDeviation(double mean, double deviation, bool sign = false);

}  // namespace plimsoll
