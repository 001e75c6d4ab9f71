#include "base/amounts.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace plimsoll {

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

}  // namespace plimsoll
