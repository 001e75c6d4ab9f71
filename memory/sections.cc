#include "memory/sections.h"

#include <algorithm>
#include <utility>

namespace plimsoll::memory {

std::vector<int32_t> SectionTimes(std::span<const Interval> intervals) {
  std::vector<std::pair<int32_t, bool>> events;  // time, and whether the event is a death
  for (const Interval& i : intervals) {
    events.emplace_back(i.birth, false);
    events.emplace_back(i.death, true);
  }
  std::sort(events.begin(), events.end());
  std::vector<int32_t> times;
  bool born = false;
  for (const auto& [time, death] : events) {
    if (death && born) times.push_back(time);
    born = !death;
  }
  return times;
}

SectionRange RangeOf(const Interval& interval, std::span<const int32_t> times) {
  const auto first = std::lower_bound(times.begin(), times.end(), interval.birth);
  const auto last = std::upper_bound(times.begin(), times.end(), interval.death) - 1;
  return {static_cast<int32_t>(first - times.begin()), static_cast<int32_t>(last - times.begin())};
}

}  // namespace plimsoll::memory
