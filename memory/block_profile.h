// From a few exact timelines to the peak of any mixture of block options.
//
// A step's memory over time is a sum: what earlier blocks keep, what the block at hand works with,
// what later blocks have left (gradients). So one program in which every block takes the same
// option says what that option costs at each block's place, and the peak of a program in which the
// blocks differ follows by addition: at block i,
//   live = live with all blocks treated as block i is, less what the i blocks before it keep then,
//          plus what they really keep.
// It is exact as long as chains of recomputation stay within their block, and an estimate
// otherwise (offloaded tensors are on their way for a while); whoever uses it checks by planning.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/program.h"

namespace plimsoll::memory {

// Parts of a training program: [0] before the blocks, [1 + i] forward of block i, [1 + N] the head
// and the loss, [2 + N + i] backward of block i, [2 + 2N] after the blocks: the update.
inline int RegionCount(int blocks) { return 3 + 2 * blocks; }
inline int ForwardRegion(int block) { return 1 + block; }
inline int HeadRegion(int blocks) { return 1 + blocks; }
inline int BackwardRegion(int blocks, int block) { return 2 + blocks + block; }
inline int UpdateRegion(int blocks) { return 2 + 2 * blocks; }

// One program, by region.
struct RegionUse {
  std::vector<int64_t> peaks;   // the most bytes of temporaries alive on the device
  std::vector<double> seconds;  // of its nodes
};
RegionUse MeasureRegions(const graph::Program& program, int blocks, int64_t alignment,
                         std::span<const double> node_seconds);

// All blocks treated alike.
struct UniformProfile {
  std::vector<std::vector<int64_t>> peaks;  // by program, by region
  std::vector<int64_t> kept_before;         // by block, and in all: kept by the blocks before it
  std::vector<double> seconds;              // by block, in a whole step
};

// Blocks [0, split) are treated as in the profile `low`, block `split` as in `odd`, the rest as in
// `high` and the last one as in `last`: `split` the number of blocks treats all as in `low`, and
// the last block is `last` wherever `split` is.
struct Mix {
  int low = 0, odd = 0, high = 0, last = 0;
  int split = 0;
};

// Peaks and seconds of mixtures, each by a few additions whatever the number of blocks.
class MixtureSums {
 public:
  // `extra` (empty: none): bytes to add by program and region, as for tensors outside the blocks.
  // `profiles` must outlive this object.
  MixtureSums(std::span<const UniformProfile> profiles,
              const std::vector<std::vector<int64_t>>& extra);

  int64_t Peak(const Mix& mix) const;
  double Seconds(const Mix& mix) const;  // of the blocks

 private:
  // Of one profile, over all programs.
  struct Sums {
    std::vector<int64_t> peak;    // by region
    std::vector<int64_t> block;   // by block: forward and backward
    std::vector<int64_t> up_to;   // by block, and in all: the most of the blocks before it
    std::vector<int64_t> from;    // by block: the most from it on, the last block left out
    std::vector<double> seconds;  // by block, and in all: of the blocks before it
  };
  int64_t Kept(int profile, int block) const {
    return profiles_[static_cast<size_t>(profile)].kept_before[static_cast<size_t>(block)];
  }

  std::span<const UniformProfile> profiles_;
  int blocks_;
  std::vector<Sums> sums_;  // by profile
};

}  // namespace plimsoll::memory
