#include "ops/cuda/choices/choice_rule.h"

#include <algorithm>
#include <limits>
#include <map>

namespace plimsoll::ops {
namespace {

constexpr double kOtherBits = 1.2;
// Ways that were slower in the rough timing by more than this factor are not timed again: ways
// compared with the fastest one that has their bits, and all ways with certain bits if the fastest
// of them is so much slower than the fastest way with the preferred bits. The number of ways timed
// again is limited, too.
constexpr double kHopeless = 1.15;
constexpr size_t kMostOfSameBits = 12;
// At least this number of ways with the preferred bits are timed again, even if they seem slow. A
// rough timing may be wrong, and the reference for the others must not be left out by chance.
constexpr size_t kSure = 4;

using Ways = std::span<const TimedWay>;

double Fastest(Ways ways, uint64_t bits) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const TimedWay& way : ways) {
    if (way.bits == bits) fastest = std::min(fastest, way.microseconds);
  }
  return fastest;
}

}  // namespace

std::vector<size_t> WaysToTimeAgain(Ways ways) {
  std::map<uint64_t, std::vector<size_t>> with_bits;
  for (size_t i = 0; i < ways.size(); ++i) with_bits[ways[i].bits].push_back(i);
  const double preferred = Fastest(ways, ways[0].bits);
  std::vector<size_t> again;
  for (auto& [bits, alike] : with_bits) {
    const double fastest = Fastest(ways, bits);
    if (fastest > kHopeless * preferred) continue;
    std::stable_sort(alike.begin(), alike.end(), [&](size_t a, size_t b) {
      return ways[a].microseconds < ways[b].microseconds;
    });
    if (alike.size() > kMostOfSameBits) alike.resize(kMostOfSameBits);
    const size_t sure = bits == ways[0].bits ? std::min(kSure, alike.size()) : 0;
    const auto hopeful = std::stable_partition(
        alike.begin() + static_cast<ptrdiff_t>(sure), alike.end(),
        [&](size_t i) { return ways[i].microseconds <= kHopeless * fastest; });
    again.insert(again.end(), alike.begin(), hopeful);
  }
  std::sort(again.begin(), again.end());
  return again;
}

size_t ChosenWay(Ways ways, uint64_t preferred) {
  const auto counted = [&](const TimedWay& way) {
    return way.microseconds * (way.bits == preferred ? 1 : kOtherBits);
  };
  const auto chosen = std::min_element(
      ways.begin(), ways.end(),
      [&](const TimedWay& a, const TimedWay& b) { return counted(a) < counted(b); });
  return static_cast<size_t>(chosen - ways.begin());
}

}  // namespace plimsoll::ops
