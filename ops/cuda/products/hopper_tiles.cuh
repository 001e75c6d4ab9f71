// How a product on Hopper (hopper_gemm.cuh) is divided into tiles, and in which order thread blocks
// take them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cuda/products/hopper_shares.h"
#include "ops/cuda/products/wide_products.cuh"
#include "ops/cuda/tensor_map.h"

namespace plimsoll::ops {

// Synchronizes the 128 threads of multiplying warpgroup 0 or 1.
__device__ inline void WarpgroupBarrier(int warpgroup) {
  if (warpgroup == 0) {
    asm volatile("bar.sync 1, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 2, 128;" ::: "memory");
  }
}

// The next work of a warpgroup.
struct HopperTile {
  int row, column;    // row and column of the first element in the result
  int rows, columns;  // numbers of rows and columns of the complete result
  int tile_column;    // index among the row's tiles
  int steps;          // number of steps of 64 along k that are summed here
  int share;          // index of one of the shares that add up to the tile; -1 for a complete tile
  int record;         // unique among all tiles and shares of tiles
  int warpgroup;      // 0 or 1

  __device__ void Barrier() const { WarpgroupBarrier(warpgroup); }
};

inline constexpr int kHopperStep = 64;  // elements along k
inline constexpr int kHopperThreads = 3 * kWarpgroup;

// How a block's two multiplying warpgroups divide the work.
enum class Warpgroups {
  kTogether,  // each has 64 rows of a tile of 128; loads fewest bytes
  kInTurn,    // each has every second tile of 64 rows: one multiplies during the other's epilogue
};

// How a product is divided. kSharedB: the two blocks of a cluster are one below the other and share
// B; otherwise they are next to each other and share A. kBlocks = 1: no clusters. kSums: B has
// eight more columns of ones, so that the last four sums of each thread are sums over k of A[m,k]:
// the first is that of row at.row, the third that of row at.row + 8.
template <typename T, int kColumns, Contiguous kA, Contiguous kB,
          Warpgroups kGroups = Warpgroups::kInTurn, int kBlocks = 2, bool kSharedB = true,
          bool kSums = false>
struct HopperTiling {
  using Type = T;
  static constexpr bool kTogether = kGroups == Warpgroups::kTogether;
  static constexpr bool kSumsOfA = kSums;
  static constexpr int kTileRows = kTogether ? 128 : 64;
  static constexpr int kTileColumns = kColumns;
  static constexpr int kCount = (kColumns + (kSums ? 8 : 0)) / 2;  // number of a thread's sums
  static constexpr Contiguous kContiguousA = kA, kContiguousB = kB;
  static constexpr int kClusterBlocks = kBlocks;
  static constexpr int kClusterRows = kSharedB ? kBlocks : 1;
  static constexpr int kClusterColumns = kSharedB ? 1 : kBlocks;
  static constexpr int kBytesA = kTileRows * kHopperStep * 2;
  static constexpr int kBoxesB = (kColumns + 63) / 64;  // boxes have 64 columns
  static constexpr int kBytesB =
      (kB == Contiguous::kInner ? kColumns : kBoxesB * 64) * kHopperStep * 2;
  static constexpr int kLoadedBytes = kBytesA + kBytesB;  // bytes loaded for a stage
  static constexpr int kOnesBytes = kSums ? kOperandTile : 0;
  static constexpr int kStageBytes = kLoadedBytes + kOnesBytes;
  static_assert(kBytesB % 1024 == 0 && (kBlocks == 1 || kBlocks == 2));
  static_assert(!kSums || (kB == Contiguous::kOuter && kColumns % 64 == 0));
};

// Complete tiles, one after another. A cluster's tiles are one below the other (kClusterRows) or
// next to each other. Clusters go down `group` rows of tiles, then to the next column, so that
// tiles computed at the same time share rows and columns in the L2 cache.
struct WholeTiles {
  int tile_rows, tile_columns;        // numbers of rows and columns of tiles in the result
  int cluster_rows, cluster_columns;  // numbers of rows and columns of clusters in the result
  int group;
  int steps;

  // The position of the cluster's tile number `index`, in clusters.
  __host__ __device__ void Place(int index, int& row, int& column) const {
    const int band = index / (group * cluster_columns), within = index % (group * cluster_columns);
    const int left = cluster_rows - band * group, high = group < left ? group : left;
    row = band * group + within % high;
    column = within / high;
  }
  // The inverse of Place.
  __host__ __device__ int Index(int row, int column) const {
    const int band = row / group;
    const int left = cluster_rows - band * group, high = group < left ? group : left;
    return band * group * cluster_columns + column * high + row % group;
  }

  // Sets the tile with number `index` among all clusters, for the block with this rank.
  template <typename Tiling>
  __device__ void Set(int index, int rank, HopperTile& tile) const {
    int row, column;
    Place(index, row, column);
    row = row * Tiling::kClusterRows + (Tiling::kClusterRows > 1 ? rank : 0);
    column = column * Tiling::kClusterColumns + (Tiling::kClusterColumns > 1 ? rank : 0);
    tile.row = row * Tiling::kTileRows;
    tile.column = column * Tiling::kTileColumns;
    tile.tile_column = column;
    tile.steps = steps;
    tile.share = -1;
    tile.record = index * Tiling::kClusterBlocks + rank;
  }

  // Gets the cluster's tile of this turn; returns false if it has none. `share` is for Run.
  template <typename Tiling>
  __device__ bool Get(int cluster, int clusters, int turn, int rank, HopperTile& tile,
                      int& share) const {
    const int64_t index = int64_t{turn} * clusters + cluster;
    if (index >= int64_t{cluster_rows} * cluster_columns) return false;
    Set<Tiling>(static_cast<int>(index), rank, tile);
    share = -1;
    return true;
  }

  // The steps of that tile.
  static constexpr int kMostRuns = 1;
  __device__ StepRun Run(int, int) const { return {0, 1, static_cast<uint16_t>(steps)}; }
};

// Like WholeTiles, but the clusters share the last tiles, of which there are fewer than clusters
// (hopper_shares.h).
struct SharedTiles {
  static constexpr int kMostClusters = 72, kMostShares = 2 * kMostClusters;
  static constexpr int kMostRuns = TileShare::kMostRuns;

  WholeTiles whole;
  int turns;  // number of complete tiles for each cluster
  int first;  // index of the first shared tile
  int tiles;  // number of shared tiles
  TileShare shares[kMostShares];
  uint16_t begin[kMostClusters + 1];
  uint16_t parts[kMostClusters + 1];

  template <typename Tiling>
  __device__ bool Get(int cluster, int clusters, int turn, int rank, HopperTile& tile,
                      int& share) const {
    if (turn < turns) return whole.Get<Tiling>(cluster, clusters, turn, rank, tile, share);
    share = begin[cluster] + turn - turns;
    if (share >= begin[cluster + 1]) return false;
    const TileShare& mine = shares[share];
    whole.Set<Tiling>(first + mine.tile, rank, tile);
    const bool alone = parts[mine.tile + 1] - parts[mine.tile] == 1;
    if (!alone) tile.share = mine.part * Tiling::kClusterBlocks + rank;
    tile.record = (first + mine.part) * Tiling::kClusterBlocks + rank;
    tile.steps = 0;
    for (int i = 0; i < kMostRuns; ++i) tile.steps += mine.runs[i].count;
    return true;
  }

  __device__ StepRun Run(int share, int i) const {
    if (share >= 0) return shares[share].runs[i];
    return {0, 1, static_cast<uint16_t>(i == 0 ? whole.steps : 0)};
  }
};

struct HopperProblem {
  MappedMatrix a, b;  // the operands in their memory layout
  int64_t m = 0, n = 0, k = 0;
};

template <typename Tiling>
WholeTiles MakeWholeTiles(const HopperProblem& problem, int group) {
  WholeTiles order;
  const auto ceil = [](int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); };
  order.tile_rows = ceil(problem.m, Tiling::kTileRows);
  order.tile_columns = ceil(problem.n, Tiling::kTileColumns);
  order.cluster_rows = ceil(order.tile_rows, Tiling::kClusterRows);
  order.cluster_columns = ceil(order.tile_columns, Tiling::kClusterColumns);
  order.group = std::min(group, order.cluster_rows);
  order.steps = ceil(problem.k, kHopperStep);
  return order;
}

}  // namespace plimsoll::ops
