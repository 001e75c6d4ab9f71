#include "memory/spread_mixtures.h"

#include <algorithm>

#include "base/parallel_each.h"
#include "memory/measured_step.h"

namespace plimsoll::memory {

SpreadMixtures::SpreadMixtures(const MixtureParts& parts, Options options, MixtureFront plain,
                               ThreadPool& pool)
    : parts_(parts),
      options_(std::move(options)),
      plain_(std::move(plain)),
      estimates_(options_.levels.size()),
      errors_(options_.levels.size()) {
  constexpr size_t kBases = 128;
  const size_t every = (plain_.size() + kBases - 1) / kBases;
  size_t at = 0;
  for (const auto& [seconds, mixture] : plain_) {
    if (at++ % every == 0 || at == plain_.size()) bases_.emplace_back(seconds, mixture);
  }
  constexpr int kCounts = 32;
  for (int count = parts.blocks; count > 0; count -= std::max(1, parts.blocks / kCounts)) {
    counts_.push_back(count);
  }
  for (const auto& extra : parts.extra) sums_.emplace_back(parts.profiles, extra);
  ParallelEach(pool, estimates_.size(),
               [&](size_t i) { estimates_[i] = EstimatesOf(options_.levels[i]); });
}

std::vector<SpreadMixtures::Estimate> SpreadMixtures::EstimatesOf(const Level& level) const {
  const int blocks = parts_.blocks, top = static_cast<int>(parts_.levels.size()) - 1;
  const double micro_steps = static_cast<double>(options_.step_micro_steps);
  std::vector<Estimate> estimates;
  std::vector<bool> leaves(blocks);
  std::vector<int> profiles(blocks);
  std::vector<int64_t> kept(blocks);
  for (int count : counts_) {
    for (int block = 0; block < blocks; ++block) leaves[block] = InSpread(block, count, blocks);
    const CopiesBeside beside = Beside(level, count);
    for (const auto& [base_seconds, base] : bases_) {
      double seconds = base_seconds + micro_steps * beside.wait;
      for (int block = 0; block < blocks; ++block) {
        const int own = base.LevelOf(block, blocks), kind = options_.kinds[block];
        const BlockOption* option = leaves[block] ? level[kind] : parts_.levels[own][kind];
        // A block whose tensors leave holds them while it works, as one that keeps all.
        profiles[block] = leaves[block] ? top : own;
        kept[block] = options_.program_micro_steps * option->kept_bytes;
        if (!leaves[block]) continue;
        seconds += micro_steps * option->recompute_seconds - parts_.profiles[own].seconds[block];
      }
      estimates.push_back({seconds, sums_[base.side].Peak(profiles, kept, beside.bytes)});
    }
  }
  return estimates;
}

MixtureFront SpreadMixtures::Front() const {
  MixtureFront front;
  for (const auto& [seconds, mixture] : plain_) {
    if (Offloads(parts_.sides[mixture.side].retentions)) AddToFront(front, seconds, mixture);
  }
  for (size_t i = 0; i < estimates_.size(); ++i) {
    auto estimate = estimates_[i].begin();
    for (int count : counts_) {
      for (const auto& [base_seconds, base] : bases_) {
        Mixture mixture = base;
        mixture.spread = {&options_.levels[i], count};
        mixture.peak = estimate->peak + static_cast<int64_t>(errors_[i].peak);
        AddToFront(front, estimate->seconds + count * errors_[i].block_seconds, mixture);
        ++estimate;
      }
    }
  }
  return front;
}

void SpreadMixtures::Correct(const std::vector<Taken>& taken) {
  std::vector<Error> sums(errors_.size());
  std::vector<int> counts(errors_.size());
  for (const Taken& one : taken) {
    if (one.mixture.spread.count == 0) continue;
    const size_t level = IndexOf(one.mixture.spread.level);
    sums[level].block_seconds += (one.seconds - one.estimated_seconds) / one.mixture.spread.count;
    sums[level].peak += static_cast<double>(one.peak - one.mixture.peak);
    ++counts[level];
  }
  for (size_t level = 0; level < errors_.size(); ++level) {
    if (counts[level] == 0) continue;
    errors_[level].block_seconds += sums[level].block_seconds / counts[level];
    errors_[level].peak += sums[level].peak / counts[level];
  }
}

CopiesBeside SpreadMixtures::Beside(const Level& level, int count) const {
  std::vector<BlockCopy> copies(parts_.blocks);
  for (int block = 0; block < parts_.blocks; ++block) {
    if (!InSpread(block, count, parts_.blocks)) continue;
    const BlockOption& option = *level[options_.kinds[block]];
    copies[block] = {option.copy_seconds, option.host_bytes};
  }
  return EstimateCopies(options_.times, copies);
}

}  // namespace plimsoll::memory
