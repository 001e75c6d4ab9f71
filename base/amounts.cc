#include "base/amounts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace plimsoll {

namespace {

std::string Plural(std::string_view noun) {
  constexpr std::string_view kVowels = "aeiou";
  // Of "ch", that of "batch" hisses, and that of "epoch" does not.
  const bool hisses =
      noun.ends_with("tch") || noun.ends_with("sh") || noun.ends_with("s") || noun.ends_with("x");
  if (hisses) return fmt::format("{}es", noun);
  if (noun.size() > 1 && noun.ends_with("y") &&
      kVowels.find(noun[noun.size() - 2]) == std::string_view::npos) {
    return fmt::format("{}ies", noun.substr(0, noun.size() - 1));
  }
  return fmt::format("{}s", noun);
}

}  // namespace

std::string FormatDuration(double seconds) {
  const int64_t s = static_cast<int64_t>(std::lround(seconds));
  if (s >= 3600) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  if (s >= 60) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string FormatCount(double count) {
  if (count >= 1e12) return fmt::format("{:.3g}T", count / 1e12);
  if (count >= 1e9) return fmt::format("{:.3g}G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.3g}M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.3g}k", count / 1e3);
  return fmt::format("{:.3g}", count);
}

std::string Counted(int64_t count, std::string_view noun) {
  return Counted(std::to_string(count), noun);
}

std::string Counted(std::string_view number, std::string_view noun) {
  return number == "1" ? fmt::format("1 {}", noun) : fmt::format("{} {}", number, Plural(noun));
}

std::string FormatWithDeviation(double mean, double deviation, bool sign) {
  constexpr double kMostOfTwoDigits = 3.55;
  constexpr double kSmall = 1e-4;  // smaller numbers get an exponent
  const double magnitude = std::floor(std::log10(deviation));
  const bool two_digits = deviation * std::pow(10, -magnitude) < kMostOfTwoDigits;
  const double size = std::max(std::abs(mean), deviation);
  const double exponent = size < kSmall ? std::floor(std::log10(size)) : 0;
  const int places = std::max(0, static_cast<int>((two_digits ? 1 : 0) - magnitude + exponent));
  const double scale = std::pow(10, -exponent);
  const std::string text = fmt::format("{}{:.{}f} ± {:.{}f}", sign && mean >= 0 ? "+" : "",
                                       mean * scale, places, deviation * scale, places);
  return exponent == 0 ? text : fmt::format("({})e{:+03d}", text, static_cast<int>(exponent));
}

}  // namespace plimsoll
