// Derives the peak of any mixture of block options from a few exact timelines.
//
// A step's memory over time is a sum: what earlier blocks keep, what the current block works with,
// and what later blocks have left (gradients). So one program in which every block takes the same
// option gives that option's cost in every block, and the peak of a program with different options
// follows by addition. At block i,
//   live = live with all blocks treated as block i is, less what the i blocks before it keep then,
//          plus what they actually keep.
// This is exact as long as chains of recomputation stay within their block, and an estimate
// otherwise (an offloaded tensor takes a while to transfer); callers check the result by planning.
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

// The use of one program, by region.
struct RegionUse {
  std::vector<int64_t> peaks;   // the most bytes of temporaries alive on the device
  std::vector<double> seconds;  // of its nodes
};
RegionUse MeasureRegions(const graph::Program& program, int blocks, int64_t alignment,
                         std::span<const double> node_seconds);

// The profile of a step in which all blocks are treated alike.
struct UniformProfile {
  std::vector<std::vector<int64_t>> peaks;  // by program, by region
  std::vector<int64_t> kept_before;         // kept by the blocks before block i; last entry: by all
  std::vector<double> seconds;              // by block, in a whole step
};

// Blocks [0, split) are treated as in the profile `low`, block `split` as in `odd`, the blocks
// after it as in `high`, and the last block as in `last`, wherever `split` is. If `split` is the
// number of blocks, all blocks are treated as in `low`.
struct Mix {
  int low = 0, odd = 0, high = 0, last = 0;
  int split = 0;
};

// Peaks and seconds of mixtures. Those of a Mix take a few additions whatever the number of blocks.
class MixtureSums {
 public:
  // `extra`: bytes to add by program and region, such as for tensors outside the blocks; empty:
  // none. `profiles` must outlive this object.
  MixtureSums(std::span<const UniformProfile> profiles,
              const std::vector<std::vector<int64_t>>& extra);

  int64_t Peak(const Mix& mix) const;
  // The peak when block i is treated as in the profile `profiles[i]`, keeps `kept[i]` bytes, and
  // has `beside[i]` bytes of other blocks beside it; the last entry of `beside` is the head's.
  int64_t Peak(std::span<const int> profiles, std::span<const int64_t> kept,
               std::span<const int64_t> beside) const;
  double Seconds(const Mix& mix) const;  // of the blocks

 private:
  // Sums for one profile, over all programs.
  struct Sums {
    std::vector<int64_t> peak;    // by region
    std::vector<int64_t> block;   // by block: forward and backward
    std::vector<int64_t> up_to;   // maximum over the blocks before block i; last entry: over all
    std::vector<int64_t> from;    // maximum over the blocks from i on, without the last block
    std::vector<double> seconds;  // of the blocks before block i; last entry: of all
  };
  int64_t Kept(int profile, int block) const {
    return profiles_[static_cast<size_t>(profile)].kept_before[static_cast<size_t>(block)];
  }

  std::span<const UniformProfile> profiles_;
  int blocks_;
  std::vector<Sums> sums_;  // by profile
};

}  // namespace plimsoll::memory
