#include "memory/mixtures.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/parallel_each.h"

namespace plimsoll::memory {

std::vector<Level> Levels(const std::vector<std::vector<BlockOption>>& by_kind) {
  std::vector<Level> levels;
  if (by_kind.size() == 1) {
    for (const BlockOption& option : by_kind[0]) levels.push_back({&option});
    return levels;
  }
  std::set<double> prices = {0.0};
  for (const std::vector<BlockOption>& options : by_kind) {
    for (size_t i = 1; i < options.size(); ++i) {
      const double bytes = static_cast<double>(options[i].kept_bytes - options[i - 1].kept_bytes);
      if (bytes > 0) prices.insert((options[i - 1].seconds - options[i].seconds) / bytes * 1.001);
    }
  }
  for (auto price = prices.rbegin(); price != prices.rend(); ++price) {
    Level level;
    for (const std::vector<BlockOption>& options : by_kind) {
      level.push_back(&*std::min_element(
          options.begin(), options.end(), [&](const BlockOption& a, const BlockOption& b) {
            return a.seconds + *price * static_cast<double>(a.kept_bytes) <
                   b.seconds + *price * static_cast<double>(b.kept_bytes);
          }));
    }
    if (levels.empty() || levels.back() != level) levels.push_back(std::move(level));
  }
  return levels;
}

void AddToFront(MixtureFront& front, double seconds, const Mixture& mixture) {
  auto next = front.upper_bound(seconds);
  if (next != front.begin() && std::prev(next)->second.peak <= mixture.peak) return;
  if (next != front.begin() && std::prev(next)->first == seconds) --next;
  while (next != front.end() && next->second.peak >= mixture.peak) next = front.erase(next);
  front.emplace_hint(next, seconds, mixture);
}

void AddPlainMixtures(const MixtureParts& parts, int first_side, ThreadPool& pool,
                      MixtureFront& front) {
  const int blocks = parts.blocks, sides = static_cast<int>(parts.sides.size());
  // Levels are sorted by kept bytes: the last keeps most.
  const int levels = static_cast<int>(parts.levels.size()), top = levels - 1;
  constexpr int kBlocksForOdd = 64;  // beyond, one block is a small part of the step
  std::vector<MixtureSums> sums;
  for (int side = first_side; side < sides; ++side) {
    sums.emplace_back(parts.profiles, parts.extra[side]);
  }
  // Each side and lowest level has a front of its own. Of equal mixtures the first one stays, so
  // that these fronts, joined in order, are that of all.
  std::vector<MixtureFront> fronts(sums.size() * parts.levels.size());
  ParallelEach(pool, fronts.size(), [&](size_t i) {
    const int side = first_side + static_cast<int>(i) / levels, low = static_cast<int>(i) % levels;
    const MixtureSums& of_side = sums[side - first_side];
    const auto consider = [&](const Mix& mix) {
      AddToFront(fronts[i], parts.seconds + parts.side_seconds[side] + of_side.Seconds(mix),
                 {.mix = mix, .side = side, .peak = of_side.Peak(mix)});
    };
    if (blocks == 0) return consider({});
    consider({.low = low, .split = blocks});
    for (int high = low; high <= top; ++high) {
      const int odd_to = blocks <= kBlocksForOdd ? high : low;
      for (int odd = low; odd <= odd_to; ++odd) {
        for (int split = 0; split < blocks; ++split) {
          const int last = split == blocks - 1 ? odd : high;
          consider({low, odd, high, last, split});
          if (last != top) consider({low, odd, high, top, split});
        }
      }
    }
  });
  for (const MixtureFront& part : fronts) {
    for (const auto& [seconds, mixture] : part) AddToFront(front, seconds, mixture);
  }
}

}  // namespace plimsoll::memory
