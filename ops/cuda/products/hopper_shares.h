// How the steps along k of a few tiles are shared among many clusters of thread blocks, so that all
// are busy to the end: for gradients of weights, which have few tiles and many steps. A function of
// the counts alone.
//
// With c clusters and t ≤ c tiles, each tile has ⌊c / t⌋ clusters of its own. What clusters are
// left help one tile after the other, each for the same time. All of a tile's clusters take its
// steps in turn (the helper's turn is last), so that at any time all clusters read the operands at
// about the same place along k, and read them from the L2 cache.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::ops {

// The steps first, first + stride, …, `count` of them.
struct StepRun {
  uint16_t first, stride, count;
};

// Of a tile, by one cluster; no more than these, and at least one step.
struct TileShare {
  static constexpr int kMostRuns = 5;
  uint16_t tile;
  uint16_t part;  // a number among all shares; those of a tile follow each other
  StepRun runs[kMostRuns];
};

struct StepShares {
  std::vector<TileShare> shares;  // cluster by cluster, in their order in time
  std::vector<uint16_t> begin;    // [clusters + 1] of each cluster's shares
  std::vector<uint16_t> parts;    // [tiles + 1] of each tile's first part
};

// At least one of each; no more tiles than clusters, at most 65535 steps.
StepShares ShareSteps(int tiles, int steps, int clusters);

}  // namespace plimsoll::ops
