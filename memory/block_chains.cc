#include "memory/block_chains.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/parallel_each.h"
#include "memory/block_shapes.h"

namespace plimsoll::memory {

using graph::Retention;

namespace {

constexpr int kChainLevels = 5;
// The lengths of the chains that are options; kLong: the length of the chains in the program that
// is measured for longer ones.
constexpr int kLengths[] = {2, 3, 4, 5, 6, 8, 10, 12, 16};
constexpr int kLong = 6;

int64_t BytesOf(const Variant& variant, std::span<const int> decisions, const Fates& fates) {
  int64_t bytes = 0;
  for (size_t i = 0; i < decisions.size(); ++i) {
    if (fates[i] == Retention::kSave) bytes += variant.decisions[decisions[i]].bytes;
  }
  return bytes;
}

}  // namespace

BlockChains::BlockChains(const Variant& variant, std::span<const std::vector<int>> segments,
                         std::span<const int> kinds, std::span<const double> node_seconds,
                         const KeptUse& keep, const CostModel& cost, const SolverOptions& options)
    : blocks_(static_cast<int>(segments.size()) - 1) {
  FindLinks(variant, segments, kinds, node_seconds);
  if (std::ranges::find(linked_, true) == linked_.end()) return;
  from_.resize(static_cast<size_t>(blocks_));
  std::vector<Layout> layouts;
  for (int level = 0; level < kChainLevels; ++level) {
    for (const int offset : {0, 1}) layouts.push_back(LayOut(level, offset, 2));
    layouts.push_back(LayOut(level, 0, kLong));
  }
  std::vector<StepUse> uses(layouts.size());
  ParallelEach(*options.pool, layouts.size(), [&](size_t i) {
    uses[i] = MeasureStep(variant.build(FatesOf(variant, segments, layouts[i])), blocks_,
                          options.plan.alignment, cost);
  });
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (i % 3 != 2) LearnPairs(layouts[i], keep, uses[i]);
  }
  for (size_t i = 2; i < layouts.size(); i += 3) LearnLong(layouts[i], keep, uses[i]);
  for (int block = 0; block < blocks_; ++block) {
    for (const int length : kLengths) {
      const int end = block + length;
      if (end > blocks_ || !std::all_of(linked_.begin() + block, linked_.begin() + end - 1,
                                        [](bool linked) { return linked; })) {
        break;
      }
      for (int level = 0; level < kChainLevels; ++level) {
        from_[block].push_back({block, length, level});
      }
    }
  }
}

void BlockChains::FindLinks(const Variant& variant, std::span<const std::vector<int>> segments,
                            std::span<const int> kinds, std::span<const double> node_seconds) {
  const graph::Program& base = *variant.bases.front();
  const auto find = [&](int block, const BlockOptionsLimits& limits) {
    return FindBlockOptions(base, variant.decisions, segments[block], node_seconds, limits);
  };
  std::map<int, std::vector<BlockOption>> chained, alone;  // map a kind of block to its options
  levels_.resize(kChainLevels);
  for (int block = 0; block < blocks_; ++block) {
    const int kind = kinds[block];
    const auto [inner, fresh] = chained.try_emplace(kind);
    if (fresh) {
      inner->second = find(block, {.options = kChainLevels, .offload = false, .chained = true});
      alone[kind] = find(block, {.options = kChainLevels, .offload = false, .leaving = false});
    }
    linked_.push_back(block + 1 < blocks_ && !inner->second.empty());
    const Fates all(segments[block].size(), Retention::kSave);
    all_bytes_.push_back(BytesOf(variant, segments[block], all));
    const auto at = [](int level, const std::vector<BlockOption>& options) -> const BlockOption& {
      return options[level * (options.size() - 1) / (kChainLevels - 1)];
    };
    for (int level = 0; level < kChainLevels; ++level) {
      Link& link = levels_[level].links.emplace_back();
      link.inner_fates = inner->second.empty() ? all : at(level, inner->second).fates;
      link.last_fates = at(level, alone[kind]).fates;
      link.inner_kept = BytesOf(variant, segments[block], link.inner_fates);
      link.last_kept = BytesOf(variant, segments[block], link.last_fates);
    }
  }
}

BlockChains::Layout BlockChains::LayOut(int level, int offset, int length) const {
  Layout layout;
  for (int block = 0; block < blocks_;) {
    Chain chain = {block, 1, level};
    const bool begins = block == 0 || !linked_[block - 1];
    const int most = begins && offset > 0 ? offset : length;
    while (chain.blocks < most && linked_[chain.end() - 1]) ++chain.blocks;
    block = chain.end();
    layout.push_back(chain);
  }
  return layout;
}

Fates BlockChains::FatesOf(const Variant& variant, std::span<const std::vector<int>> segments,
                           const Layout& layout) const {
  Fates fates = variant.KeepAll();
  for (const Chain& chain : layout) {
    for (int block = chain.first; block < chain.end(); ++block) {
      const Fates& own = FatesOf(chain, block);
      for (size_t i = 0; i < own.size(); ++i) fates[segments[block][i]] = own[i];
    }
  }
  return fates;
}

// Learns from programs whose chains have two blocks, or one block at the end if no second block is
// left.
void BlockChains::LearnPairs(const Layout& layout, const KeptUse& keep, const StepUse& use) {
  Level& level = levels_[layout.front().level];
  int64_t dropped = 0;  // bytes that the blocks so far drop
  const auto differ = [&](int region, const std::vector<int64_t>& waiting) {
    std::vector<int64_t> by_program;
    for (size_t p = 0; p < use.programs.size(); ++p) {
      by_program.push_back(use.programs[p].peaks[region] - keep.programs[p].peaks[region] +
                           dropped - waiting[p]);
    }
    return by_program;
  };
  const std::vector<int64_t> none(use.programs.size(), 0);
  for (const Chain& chain : layout) {
    std::vector<int64_t> waiting = none;
    for (int block = chain.first; block < chain.end(); ++block) {
      Link& link = level.links[block];
      const bool last = block + 1 == chain.end();
      const int forward = ForwardRegion(block), backward = BackwardRegion(blocks_, block);
      if (chain.blocks > 1) {
        if (block == 0) {
          level.start = differ(0, none);
          level.update = differ(UpdateRegion(blocks_), none);
        }
        (last ? link.last : link.first) = Change{
            use.work(forward) + use.work(backward) - keep.work(forward) - keep.work(backward),
            differ(forward, none), differ(backward, waiting)};
      }
      if (!last) {
        link.making.clear();
        for (size_t p = 0; p < use.programs.size(); ++p) {
          link.making.push_back(use.programs[p].again[block] - keep.programs[p].peaks[backward] +
                                dropped);
        }
      }
      dropped += all_bytes_[block] - (last ? link.last_kept : link.inner_kept);
      if (last) continue;
      link.inner = link.first;
      const int next = BackwardRegion(blocks_, block + 1);
      for (size_t p = 0; p < use.programs.size(); ++p) {
        const int64_t more = use.programs[p].ends[next] - keep.programs[p].ends[next] + dropped;
        waiting[p] = use.times[p] > 0 ? std::max<int64_t>(0, more) : 0;
      }
      link.waiting = waiting;
    }
    if (chain.end() == blocks_ && chain.blocks > 1) level.head = differ(HeadRegion(blocks_), none);
  }
}

// Learns the needs and seconds of blocks that are neither the first nor the last of a chain.
void BlockChains::LearnLong(const Layout& layout, const KeptUse& keep, const StepUse& use) {
  Level& level = levels_[layout.front().level];
  int64_t dropped = 0;
  double again = 0;  // the `again` of the nearest earlier block
  for (const Chain& chain : layout) {
    std::vector<int64_t> waiting(use.programs.size(), 0);
    for (int block = chain.first; block < chain.end(); ++block) {
      Link& link = level.links[block];
      const int behind = chain.end() - 1 - block;
      const int forward = ForwardRegion(block), backward = BackwardRegion(blocks_, block);
      if (behind > 1) {
        const double seconds =
            use.work(forward) + use.work(backward) - keep.work(forward) - keep.work(backward);
        again = std::max(0.0, (seconds - link.first.seconds) / (behind - 1));
      }
      link.again = again;
      if (behind > 0 && block > chain.first) {
        for (size_t p = 0; p < use.programs.size(); ++p) {
          const auto learn = [&](int region, int64_t beside, int64_t& bytes) {
            bytes = std::max(bytes, use.programs[p].peaks[region] - keep.programs[p].peaks[region] +
                                        dropped - beside);
          };
          learn(forward, 0, link.inner.forward[p]);
          learn(backward, waiting[p], link.inner.backward[p]);
        }
      }
      dropped += all_bytes_[block] - (behind == 0 ? link.last_kept : link.inner_kept);
      for (size_t p = 0; p < use.programs.size() && behind > 0; ++p) {
        waiting[p] += link.waiting[p];
      }
    }
  }
}

std::span<const BlockChains::Chain> BlockChains::From(int block) const {
  return from_.empty() ? std::span<const Chain>() : from_[block];
}

const Fates& BlockChains::FatesOf(const Chain& chain, int block) const {
  const Link& link = levels_[chain.level].links[block];
  return block + 1 == chain.end() ? link.last_fates : link.inner_fates;
}

int64_t BlockChains::Kept(const Chain& chain) const {
  int64_t bytes = 0;
  for (int block = chain.first; block < chain.end(); ++block) {
    const Link& link = levels_[chain.level].links[block];
    bytes += block + 1 == chain.end() ? link.last_kept : link.inner_kept;
  }
  return bytes;
}

double BlockChains::Seconds(const Chain& chain) const {
  double seconds = 0;
  for (int block = chain.first; block < chain.end(); ++block) {
    const Link& link = levels_[chain.level].links[block];
    const int behind = chain.end() - 1 - block;
    seconds += behind == 0 ? link.last.seconds : link.first.seconds + (behind - 1) * link.again;
  }
  return seconds;
}

int64_t BlockChains::Need(const Chain& chain, size_t program, std::span<const int64_t> own) const {
  const Level& level = levels_[chain.level];
  int64_t need = 0, kept = 0, waiting = 0;
  const auto take = [&](int region, int64_t change, int64_t beside) {
    need = std::max(need, own[region] + change + beside);
  };
  for (int block = chain.first; block < chain.end(); ++block) {
    const Link& link = level.links[block];
    const bool last = block + 1 == chain.end();
    const Change& change = block == chain.first ? link.first : last ? link.last : link.inner;
    take(ForwardRegion(block), change.forward[program], kept);
    // The block is recomputed before the backward passes of the later blocks of its chain.
    if (!last) {
      const int64_t making = std::min(own[ForwardRegion(block)] + change.forward[program],
                                      own[BackwardRegion(blocks_, block)] + link.making[program]);
      need = std::max(need, making + kept + waiting);
    }
    take(BackwardRegion(blocks_, block), change.backward[program], kept + waiting);
    kept += last ? link.last_kept : link.inner_kept;
    if (!last) waiting += link.waiting[program];
  }
  if (chain.first == 0) {
    take(0, level.start[program], 0);
    take(UpdateRegion(blocks_), level.update[program], 0);
  }
  if (chain.end() == blocks_) take(HeadRegion(blocks_), level.head[program], kept);
  return need;
}

}  // namespace plimsoll::memory
