#include "base/compute_capability.h"

#include <fmt/format.h>

#include <atomic>

namespace plimsoll {
namespace {

constexpr ComputeCapability kCapabilities[] = {{7, 5}, {8, 0},  {8, 6},  {8, 7},  {8, 8},  {8, 9},
                                               {9, 0}, {10, 0}, {10, 3}, {11, 0}, {12, 0}, {12, 1}};

std::atomic<int> acted = 0;  // 86: 8.6; 0: none

}  // namespace

int64_t ComputeCapability::shared_bytes() const {
  constexpr int64_t kKib = 1024;
  if (major == 7) return 64 * kKib;
  if (major == 8 && (minor == 0 || minor == 7)) return 163 * kKib;
  if (major >= 9 && major <= 11) return 227 * kKib;
  return 99 * kKib;
}

bool ComputeCapability::runs_kernels_of(ComputeCapability other) const {
  return (is_hopper() || !other.is_hopper()) && (multiplies_bf16() || !other.multiplies_bf16()) &&
         (multiplies_float8() || !other.multiplies_float8()) &&
         shared_bytes() >= other.shared_bytes();
}

std::string ComputeCapability::text() const { return fmt::format("{}.{}", major, minor); }

std::string ComputeCapabilityNames() {
  std::string names;
  for (const ComputeCapability& capability : kCapabilities) {
    names += (names.empty() ? "" : ", ") + capability.text();
  }
  return names;
}

std::optional<ComputeCapability> ParseComputeCapability(std::string_view text) {
  for (const ComputeCapability& capability : kCapabilities) {
    if (capability.text() == text) return capability;
  }
  return std::nullopt;
}

void ActAs(ComputeCapability capability) { acted = 10 * capability.major + capability.minor; }

std::optional<ComputeCapability> ActedCapability() {
  const int number = acted;
  if (number == 0) return std::nullopt;
  return ComputeCapability{number / 10, number % 10};
}

}  // namespace plimsoll
