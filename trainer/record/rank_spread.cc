#include "trainer/record/rank_spread.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace plimsoll::trainer {

RankSpread SpreadOver(Ranks& ranks, double step_seconds, int64_t bytes,
                      const std::optional<Energy>& energy) {
  struct Own {
    double seconds;
    int64_t bytes;
    bool has_energy;
    Energy energy;
  } const own = {step_seconds, bytes, energy.has_value(), energy.value_or(Energy{})};
  std::vector<Own> all;
  for (const std::string& text : ranks.Gather({reinterpret_cast<const char*>(&own), sizeof(own)})) {
    std::memcpy(&all.emplace_back(), text.data(), sizeof(Own));
  }
  const auto by_seconds = std::ranges::minmax_element(all, {}, &Own::seconds);
  const auto by_bytes = std::ranges::minmax_element(all, {}, &Own::bytes);
  RankSpread spread{by_seconds.min->seconds, by_seconds.max->seconds,
                    static_cast<int>(by_seconds.max - all.begin()), by_bytes.min->bytes,
                    by_bytes.max->bytes};
  if (std::ranges::all_of(all, &Own::has_energy)) {
    spread.energy.emplace();
    for (const Own& rank : all) *spread.energy += rank.energy;
  }
  return spread;
}

}  // namespace plimsoll::trainer
