#include "memory/block_profile.h"

#include <algorithm>
#include <numeric>

#include "graph/block.h"
#include "memory/lifetimes.h"

namespace plimsoll::memory {
namespace {

using graph::Node;
using graph::Phase;
using graph::Program;

// The region of each node. A recomputed node belongs to the backward node that needs it.
std::vector<int> Regions(const Program& program, const graph::Blocks& known, int blocks) {
  const std::vector<Node>& nodes = program.nodes();
  std::vector<int> regions(nodes.size(), 0);
  int region = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].phase != Phase::kForward) continue;
    const int block = known.Of(n);
    if (block >= 0 && block < blocks) {
      region = ForwardRegion(block);
    } else if (region > 0) {
      region = HeadRegion(blocks);
    }
    regions[n] = region;
  }
  // Goes backwards, so that a node outside any block joins the region of the nodes after it.
  region = UpdateRegion(blocks);
  int last_block = -1;
  for (size_t n = nodes.size(); n-- > 0;) {
    if (nodes[n].phase == Phase::kForward) break;
    const int block = known.Of(n);
    if (nodes[n].phase == Phase::kBackward) {
      if (block >= 0 && block < blocks) {
        region = BackwardRegion(blocks, block);
        last_block = block;
      } else {
        region = last_block < 0 ? UpdateRegion(blocks) : HeadRegion(blocks);
      }
    }
    regions[n] = region;
  }
  return regions;
}

// The region to which a node's seconds count. A node that is recomputed or gathered again may start
// early, beside an earlier block's backward pass, but its seconds are due to its own block's
// option.
int RegionOfSeconds(const Node& node, int block, int region, int blocks) {
  const bool again = node.phase == Phase::kRecompute && block >= 0 && block < blocks;
  return again ? BackwardRegion(blocks, block) : region;
}

}  // namespace

RegionUse MeasureRegions(const Program& program, int blocks, int64_t alignment,
                         std::span<const double> node_seconds) {
  const Lifetimes lifetimes = ComputeLifetimes(program);
  std::vector<int64_t> live(program.nodes().size() + 1, 0);
  for (const Buffer& buffer : lifetimes.buffers) {
    if (buffer.place != graph::Place::kDevice) continue;
    const int64_t bytes = (buffer.bytes + alignment - 1) / alignment * alignment;
    live[buffer.birth] += bytes;
    live[buffer.death + 1] -= bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  RegionUse use;
  use.peaks.resize(RegionCount(blocks), 0);
  use.seconds.resize(RegionCount(blocks), 0);
  const graph::Blocks known(program);
  const std::vector<int> regions = Regions(program, known, blocks);
  for (size_t n = 0; n < regions.size(); ++n) {
    use.peaks[regions[n]] = std::max(use.peaks[regions[n]], live[n]);
    use.seconds[RegionOfSeconds(program.nodes()[n], known.Of(n), regions[n], blocks)] +=
        node_seconds[n];
  }
  return use;
}

MixtureSums::MixtureSums(std::span<const UniformProfile> profiles,
                         const std::vector<std::vector<int64_t>>& extra)
    : profiles_(profiles), blocks_(static_cast<int>(profiles.front().seconds.size())) {
  for (const UniformProfile& profile : profiles) {
    Sums& sums = sums_.emplace_back();
    sums.peak.assign(profile.peaks.front().size(), 0);
    for (size_t p = 0; p < profile.peaks.size(); ++p) {
      for (size_t region = 0; region < sums.peak.size(); ++region) {
        const int64_t more = extra.empty() ? 0 : extra[p][region];
        sums.peak[region] = std::max(sums.peak[region], profile.peaks[p][region] + more);
      }
    }
    sums.up_to = {0};
    sums.seconds = {0};
    for (int block = 0; block < blocks_; ++block) {
      sums.block.push_back(
          std::max(sums.peak[ForwardRegion(block)], sums.peak[BackwardRegion(blocks_, block)]));
      sums.up_to.push_back(std::max(sums.up_to.back(), sums.block.back()));
      sums.seconds.push_back(sums.seconds.back() + profile.seconds[block]);
    }
    sums.from.assign(static_cast<size_t>(blocks_), 0);
    for (int block = blocks_ - 2; block >= 0; --block) {
      sums.from[block] = std::max(sums.from[block + 1], sums.block[block]);
    }
  }
}

int64_t MixtureSums::Peak(const Mix& mix) const {
  const int end = blocks_ - 1;  // the last block
  const int first = mix.split > 0 || blocks_ == 0 ? mix.low : mix.split == end ? mix.last : mix.odd;
  int64_t peak = std::max(sums_[first].peak[0], sums_[first].peak[UpdateRegion(blocks_)]);
  if (blocks_ == 0) return peak;
  peak = std::max(peak, sums_[mix.low].up_to[mix.split]);
  int64_t before = Kept(mix.low, mix.split);  // bytes that the blocks so far actually keep
  const auto look = [&](int profile, int block) {
    peak = std::max(peak, sums_[profile].block[block] + before - Kept(profile, block));
    before += Kept(profile, block + 1) - Kept(profile, block);
  };
  if (mix.split < end) look(mix.odd, mix.split);
  if (const int next = mix.split + 1; next < end) {
    peak = std::max(peak, sums_[mix.high].from[next] + before - Kept(mix.high, next));
    before += Kept(mix.high, end) - Kept(mix.high, next);
  }
  if (mix.split <= end) look(mix.last, end);
  const int head = mix.split <= end ? mix.last : mix.low;
  return std::max(peak, sums_[head].peak[HeadRegion(blocks_)] + before - Kept(head, blocks_));
}

int64_t MixtureSums::Peak(std::span<const int> profiles, std::span<const int64_t> kept,
                          std::span<const int64_t> beside) const {
  const Sums& first = sums_[profiles.front()];
  int64_t peak = std::max(first.peak[0], first.peak[UpdateRegion(blocks_)]);
  int64_t before = 0;
  for (int block = 0; block < blocks_; ++block) {
    const int profile = profiles[block];
    peak =
        std::max(peak, sums_[profile].block[block] + before - Kept(profile, block) + beside[block]);
    before += kept[block];
  }
  const int head = profiles.back();
  return std::max(
      peak, sums_[head].peak[HeadRegion(blocks_)] + before - Kept(head, blocks_) + beside[blocks_]);
}

double MixtureSums::Seconds(const Mix& mix) const {
  if (blocks_ == 0) return 0;
  const int end = blocks_ - 1;
  const auto between = [&](int profile, int from, int to) {
    return sums_[profile].seconds[to] - sums_[profile].seconds[from];
  };
  double seconds = between(mix.low, 0, mix.split);
  if (mix.split < end) seconds += between(mix.odd, mix.split, mix.split + 1);
  if (mix.split + 1 < end) seconds += between(mix.high, mix.split + 1, end);
  if (mix.split <= end) seconds += between(mix.last, end, blocks_);
  return seconds;
}

}  // namespace plimsoll::memory
