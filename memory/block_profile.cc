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

// The region of each node. A recomputed node belongs to the backward node that it is made for.
std::vector<int> Regions(const Program& program, int blocks) {
  const std::vector<Node>& nodes = program.nodes();
  std::vector<int> regions(nodes.size(), 0);
  int region = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].phase != Phase::kForward) continue;
    const int block = graph::BlockOf(nodes[n].scope);
    if (block >= 0 && block < blocks) {
      region = ForwardRegion(block);
    } else if (region > 0) {
      region = HeadRegion(blocks);
    }
    regions[n] = region;
  }
  // Backwards, so that what has no block itself joins what follows it.
  region = UpdateRegion(blocks);
  int last_block = -1;
  for (size_t n = nodes.size(); n-- > 0;) {
    if (nodes[n].phase == Phase::kForward) break;
    const int block = graph::BlockOf(nodes[n].scope);
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

// Where a node's seconds count. What is computed or gathered again may start early, beside an
// earlier block's backward pass, but it is its own block's treatment that asks for it.
int RegionOfSeconds(const Node& node, int region, int blocks) {
  const int block = graph::BlockOf(node.scope);
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
  const std::vector<int> regions = Regions(program, blocks);
  for (size_t n = 0; n < regions.size(); ++n) {
    use.peaks[regions[n]] = std::max(use.peaks[regions[n]], live[n]);
    use.seconds[RegionOfSeconds(program.nodes()[n], regions[n], blocks)] += node_seconds[n];
  }
  return use;
}

int64_t MixedPeak(std::span<const UniformProfile> profiles, std::span<const int> choice,
                  const std::vector<std::vector<int64_t>>& extra) {
  const int blocks = static_cast<int>(choice.size());
  const size_t programs = profiles.front().peaks.size();
  const UniformProfile& first = profiles[blocks > 0 ? choice.front() : 0];
  const UniformProfile& last = profiles[blocks > 0 ? choice.back() : 0];
  int64_t peak = 0;
  const auto look = [&](const UniformProfile& profile, int region, int64_t shift) {
    for (size_t p = 0; p < programs; ++p) {
      const int64_t more = extra.empty() ? 0 : extra[p][region];
      peak = std::max(peak, profile.peaks[p][region] + shift + more);
    }
  };
  look(first, 0, 0);
  int64_t before = 0;  // really kept by the blocks so far
  for (int i = 0; i < blocks; ++i) {
    const UniformProfile& own = profiles[choice[i]];
    const int64_t shift = before - own.kept_before[i];
    look(own, ForwardRegion(i), shift);
    look(own, BackwardRegion(blocks, i), shift);
    before += own.kept_before[i + 1] - own.kept_before[i];
  }
  if (blocks > 0) look(last, HeadRegion(blocks), before - last.kept_before[blocks]);
  look(first, UpdateRegion(blocks), 0);
  return peak;
}

}  // namespace plimsoll::memory
