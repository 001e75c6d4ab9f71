#include "base/compute_capability.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>

namespace plimsoll {
namespace {

std::atomic<int> acted = 0;  // 86: 8.6; 0: none

}  // namespace

int64_t ComputeCapability::shared_bytes() const {
  constexpr int64_t kKib = 1024;
  if (major == 7) return 64 * kKib;
  if (major == 8 && (minor == 0 || minor == 7)) return 163 * kKib;
  if (major >= 9 && major <= 11) return 227 * kKib;
  return 99 * kKib;
}

std::string ComputeCapability::text() const { return fmt::format("{}.{}", major, minor); }

std::optional<ComputeCapability> ParseComputeCapability(std::string_view text) {
  ComputeCapability capability;
  const char* const end = text.data() + text.size();
  const auto [point, bad_major] = std::from_chars(text.data(), end, capability.major);
  if (bad_major != std::errc() || point == end || *point != '.') return std::nullopt;
  const auto [rest, bad_minor] = std::from_chars(point + 1, end, capability.minor);
  if (bad_minor != std::errc() || rest != end || capability.minor < 0 || capability.minor > 9 ||
      capability.major < 1) {
    return std::nullopt;
  }
  return capability;
}

void ActAs(ComputeCapability capability) { acted = 10 * capability.major + capability.minor; }

std::optional<ComputeCapability> ActedCapability() {
  const int number = acted;
  if (number == 0) return std::nullopt;
  return ComputeCapability{number / 10, number % 10};
}

}  // namespace plimsoll
