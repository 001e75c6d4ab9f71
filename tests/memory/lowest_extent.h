// The best placement of a few buffers, by trying all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "memory/interval.h"

namespace plimsoll::memory {

// The lowest extent. Each buffer at the lowest offset at which it fits, in any order: some order
// gives an optimal placement.
inline int64_t LowestExtent(const std::vector<Interval>& intervals) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t best = std::numeric_limits<int64_t>::max();
  do {
    std::vector<int64_t> offsets(intervals.size(), -1);
    int64_t extent = 0;
    for (size_t i : order) {
      int64_t at = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t j = 0; j < intervals.size(); ++j) {
          if (offsets[j] < 0 || !intervals[j].Meets(intervals[i])) continue;
          if (at < offsets[j] + intervals[j].size && offsets[j] < at + intervals[i].size) {
            at = offsets[j] + intervals[j].size;
            moved = true;
          }
        }
      }
      offsets[i] = at;
      extent = std::max(extent, at + intervals[i].size);
    }
    best = std::min(best, extent);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

}  // namespace plimsoll::memory
