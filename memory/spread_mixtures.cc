#include "memory/spread_mixtures.h"

#include <algorithm>

#include "memory/measured_step.h"

namespace plimsoll::memory {

SpreadMixtures::SpreadMixtures(const MixtureParts& parts, Options options)
    : parts_(parts),
      options_(std::move(options)),
      plain_(PlainMixtures(parts)),
      errors_(options_.levels.size()) {
  constexpr size_t kBases = 128;
  const size_t every = (plain_.size() + kBases - 1) / kBases;
  size_t at = 0;
  for (const auto& [seconds, mixture] : plain_) {
    if (at++ % every == 0 || at == plain_.size()) bases_.emplace_back(seconds, mixture);
  }
  for (const auto& extra : parts.extra) sums_.emplace_back(parts.profiles, extra);
}

MixtureFront SpreadMixtures::Front() const {
  constexpr int kCounts = 32;
  MixtureFront front;
  for (const auto& [seconds, mixture] : plain_) {
    if (Offloads(parts_.sides[mixture.side].retentions)) AddToFront(front, seconds, mixture);
  }
  const int blocks = parts_.blocks, top = static_cast<int>(parts_.levels.size()) - 1;
  const double micro_steps = static_cast<double>(options_.step_micro_steps);
  std::vector<int> profiles(blocks);
  std::vector<int64_t> kept(blocks);
  for (const Level& level : options_.levels) {
    const Error& error = errors_[IndexOf(&level)];
    for (int count = blocks; count > 0; count -= std::max(1, blocks / kCounts)) {
      const CopiesBeside beside = Beside(level, count);
      for (const auto& [base_seconds, base] : bases_) {
        double seconds = base_seconds + micro_steps * beside.wait + count * error.block_seconds;
        for (int block = 0; block < blocks; ++block) {
          const int own = base.LevelOf(block, blocks), kind = options_.kinds[block];
          const bool leaves = InSpread(block, count, blocks);
          const BlockOption* option = leaves ? level[kind] : parts_.levels[own][kind];
          // A block whose tensors leave holds them while it works, as one that keeps all.
          profiles[block] = leaves ? top : own;
          kept[block] = options_.program_micro_steps * option->kept_bytes;
          if (!leaves) continue;
          seconds += micro_steps * option->recompute_seconds - parts_.profiles[own].seconds[block];
        }
        Mixture mixture = base;
        mixture.spread = {&level, count};
        mixture.peak = sums_[mixture.side].Peak(profiles, kept, beside.bytes) +
                       static_cast<int64_t>(error.peak);
        AddToFront(front, seconds, mixture);
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
