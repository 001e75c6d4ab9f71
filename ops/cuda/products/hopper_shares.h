// Divides the steps along k of a few tiles among many clusters of thread blocks, so that all are
// busy to the end. This is for gradients of weights, which have few tiles and many steps. The
// division is a function of the counts alone.
//
// With c clusters and t ≤ c tiles, each tile has ⌊c / t⌋ clusters of its own. The remaining
// clusters help one tile after the other, each tile for the same time. The clusters of a tile take
// its steps in turn (the helper's turn is last), so that at any time all clusters read the operands
// at about the same position along k, and read them from the L2 cache.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::ops {

// The steps first, first + stride, …; there are `count` of them.
struct StepRun {
  uint16_t first, stride, count;
};

// A cluster's part of a tile: at most this many runs, and at least one step.
struct TileShare {
  static constexpr int kMostRuns = 5;
  uint16_t tile;
  uint16_t part;  // numbered over all shares; those of a tile are consecutive
  StepRun runs[kMostRuns];
};

struct StepShares {
  std::vector<TileShare> shares;  // shares of each cluster, in order of time
  std::vector<uint16_t> begin;    // [clusters + 1]: by cluster, the index of its first share
  std::vector<uint16_t> parts;    // [tiles + 1]: by tile, its first part
};

// All arguments are at least one; no more tiles than clusters, and at most 65535 steps.
StepShares ShareSteps(int tiles, int steps, int clusters);

}  // namespace plimsoll::ops
