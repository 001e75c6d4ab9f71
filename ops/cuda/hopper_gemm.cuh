// Matrix products of 16-bit operands on Hopper, with room for an epilogue of one's own:
//
//   sums[m,n] = Σ over k of A[m,k] · B[n,k]        float32; what becomes of them, the epilogue says
//
// Either operand may lie in memory with k contiguous (Contiguous::kInner: A is [m,k], B is [n,k],
// as in y = x · weightᵀ) or with its other dimension contiguous (kOuter: A is [k,m], B is [k,n]).
//
// A block has two warpgroups that multiply, 64 rows each of a tile of 128 × kColumns, and one whose
// first thread has the copy engine fill a ring of stages, 64 of k each, in shared memory. Two
// blocks of a cluster have neighbouring tiles and share what they have in common: each loads half
// of it for both. Blocks stay and take tile after tile; while the epilogue of a tile runs, the ring
// is filled for the next one, and the second warpgroup is kept a little behind the first, so that
// one multiplies while the other is in its epilogue.
//
// An epilogue is a struct of plain values, passed to the kernel as a __grid_constant__ parameter
// (it may hold tensor maps):
//
//   struct Epilogue {
//     static constexpr int kSharedBytes = …;  // of each warpgroup, a multiple of 1024; may be 0
//     template <int kCount>                   // kColumns / 2
//     __device__ void operator()(float (&sums)[kCount], const HopperTile& tile, char* shared)
//     const;
//   };
//
// It is called by the 128 threads of a warpgroup for each of its 64 × kColumns results. sums[i] is
// the element (tile.row + at.Row(i), tile.column + at.Column(i)) with ResultPlace at (wgmma.cuh):
// the columns of a row lie in the 4 threads of a quad, two next to each other in registers i and
// i + 1 (i even). Elements from tile.rows or tile.columns on are not part of the result: their sums
// are zeros. `shared` is aligned to 1024 bytes and keeps what the last call left there. The threads
// may meet in tile.Barrier(), and only there. Boxes stored by the copy engine are waited for at the
// kernel's end.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "gpu/check.h"
#include "ops/cuda/hopper_shares.h"
#include "ops/cuda/tensor_copy.cuh"
#include "ops/cuda/tensor_map.h"
#include "ops/cuda/wide_products.cuh"

namespace plimsoll::ops {

// What a warpgroup has to do next.
struct HopperTile {
  int row, column;    // of its first element in the result
  int rows, columns;  // of the whole result
  int tile_column;    // which of a row's tiles
  int steps;          // of 64 along k, that are summed here
  int share;          // of several that add up to the tile; -1: this is all of it
  int record;         // a number of its own among all tiles and shares of tiles
  int warpgroup;      // 0 or 1

  __device__ void Barrier() const {
    if (warpgroup == 0) {
      asm volatile("bar.sync 1, 128;" ::: "memory");
    } else {
      asm volatile("bar.sync 2, 128;" ::: "memory");
    }
  }
};

inline constexpr int kHopperRows = 128;  // of a block's tile
inline constexpr int kHopperStep = 64;   // along k
inline constexpr int kHopperThreads = 3 * kWarpgroup;

// How a product is cut. kSharedB: two blocks of a cluster lie one below the other and share B;
// otherwise they lie side by side and share A. kBlocks = 1: no clusters. kSumsOfA: the epilogue
// also gets Σ over k of A[m,k], as operator()(sums, row_sums, tile, shared): row_sums[0] for at.row
// and row_sums[2] for at.row + 8. Each of a row's tiles sums a part of the steps: the sums of all
// of them, and of all their shares, are to be added.
template <typename T, int kColumns, Contiguous kA, Contiguous kB, int kBlocks = 2,
          bool kSharedB = true, bool kSums = false>
struct HopperTiling {
  using Type = T;
  static constexpr bool kSumsOfA = kSums;
  static constexpr int kClusterBlocks = kBlocks;
  static constexpr int kTileColumns = kColumns;
  static constexpr Contiguous kContiguousA = kA, kContiguousB = kB;
  static constexpr int kClusterRows = kSharedB ? kBlocks : 1;
  static constexpr int kClusterColumns = kSharedB ? 1 : kBlocks;
  static constexpr int kBytesA = kHopperRows * kHopperStep * 2;
  // Boxes have 64 columns.
  static constexpr int kBoxesB = (kColumns + 63) / 64;
  static constexpr int kBytesB =
      (kB == Contiguous::kInner ? kColumns : kBoxesB * 64) * kHopperStep * 2;
  static constexpr int kStageBytes = kBytesA + kBytesB;
  static_assert(kBytesB % 1024 == 0 && (kBlocks == 1 || kBlocks == 2));
};

// Every tile as a whole, tile after tile. A cluster's tiles lie below (kClusterRows) or beside one
// another; clusters take turns down `group` rows of them, then one column on, so that what runs at
// once shares rows and columns in the L2 cache.
struct WholeTiles {
  int tile_rows, tile_columns;        // of the result
  int cluster_rows, cluster_columns;  // of the result, in clusters
  int group;
  int steps;

  // Where the cluster's tile number `index` lies, in clusters.
  __host__ __device__ void Place(int index, int& row, int& column) const {
    const int band = index / (group * cluster_columns), within = index % (group * cluster_columns);
    const int left = cluster_rows - band * group, high = group < left ? group : left;
    row = band * group + within % high;
    column = within / high;
  }
  // The other way round.
  __host__ __device__ int Index(int row, int column) const {
    const int band = row / group;
    const int left = cluster_rows - band * group, high = group < left ? group : left;
    return band * group * cluster_columns + column * high + row % group;
  }

  // Tile number `index` of all clusters, for the block of this rank.
  template <typename Tiling>
  __device__ void Set(int index, int rank, HopperTile& tile) const {
    int row, column;
    Place(index, row, column);
    row = row * Tiling::kClusterRows + (Tiling::kClusterRows > 1 ? rank : 0);
    column = column * Tiling::kClusterColumns + (Tiling::kClusterColumns > 1 ? rank : 0);
    tile.row = row * kHopperRows;
    tile.column = column * Tiling::kTileColumns;
    tile.tile_column = column;
    tile.steps = steps;
    tile.share = -1;
    tile.record = index * Tiling::kClusterBlocks + rank;
  }

  // The cluster's tile of this turn; false when there is none. `share` is for Run.
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

// The same, but the last tiles, too few for all clusters, are shared among them (hopper_shares.h).
struct SharedTiles {
  static constexpr int kMostClusters = 72, kMostShares = 2 * kMostClusters;
  static constexpr int kMostRuns = TileShare::kMostRuns;

  WholeTiles whole;
  int turns;  // of whole tiles, for each cluster
  int first;  // of the tiles that are shared
  int tiles;  // that are shared
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

template <typename Epilogue, typename Order>
struct HopperArguments {
  CUtensorMap a, b;
  int rows, columns;
  Order order;
  Epilogue epilogue;
};

// Shared memory: the stages (A, then B), the epilogue's of both warpgroups, and two barriers for
// each stage: `full` when its bytes have come, `free` when all that read it have done so.
template <typename Tiling, typename Epilogue>
struct HopperMemory {
  static constexpr int kMost = 227 << 10;
  static constexpr int kAlignment = 1024;
  static constexpr int kEpilogueBytes = 2 * Epilogue::kSharedBytes;
  static constexpr int kMostStages = 8;
  static constexpr int kBarrierBytes = kMostStages * 16;
  static constexpr int kOnesBytes = Tiling::kSumsOfA ? 1024 : 0;  // eight rows of ones
  static constexpr int kStages =
      std::min(kMostStages, (kMost - kAlignment - kEpilogueBytes - kOnesBytes - kBarrierBytes) /
                                Tiling::kStageBytes);
  static constexpr int kEpilogueAt = kStages * Tiling::kStageBytes;
  static constexpr int kOnesAt = kEpilogueAt + kEpilogueBytes;
  static constexpr int kBarriersAt = kOnesAt + kOnesBytes;
  static constexpr int kBytes = kAlignment + kBarriersAt + kBarrierBytes;
  static_assert(kStages >= 2 && Epilogue::kSharedBytes % kAlignment == 0);

  uint32_t base;  // of the stages

  __device__ uint32_t A(int stage) const { return base + stage * Tiling::kStageBytes; }
  __device__ uint32_t B(int stage) const { return A(stage) + Tiling::kBytesA; }
  __device__ uint32_t Full(int stage) const { return base + kBarriersAt + stage * 16; }
  __device__ uint32_t Free(int stage) const { return Full(stage) + 8; }
};

// A place in the ring, and in which of its phases the stage's barriers are.
template <int kStages>
struct RingPlace {
  int stage = 0;
  uint32_t phase = 0;
  __device__ void Next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// Calls visit(step) for each step of a tile or share.
template <typename Order, typename Visit>
__device__ void ForEachStep(const Order& order, int share, Visit visit) {
  for (int i = 0; i < Order::kMostRuns; ++i) {
    const StepRun run = order.Run(share, i);
    int step = run.first;
    for (int left = run.count; left > 0; --left, step += run.stride) visit(step);
  }
}

// By one thread: has the copy engine load the stages of all of the block's tiles.
template <typename Tiling, typename Memory, typename Arguments>
__device__ void LoadStages(const Memory& memory, const Arguments& p, int cluster, int clusters,
                           int rank) {
  constexpr int kShareB = Tiling::kClusterRows, kShareA = Tiling::kClusterColumns;
  constexpr uint16_t kAll = 3;
  RingPlace<Memory::kStages> place;
  HopperTile tile;
  int share;
  for (int turn = 0; p.order.template Get<Tiling>(cluster, clusters, turn, rank, tile, share);
       ++turn) {
    ForEachStep(p.order, share, [&](int step) {
      const uint32_t full = memory.Full(place.stage);
      AwaitBarrier(memory.Free(place.stage), place.phase ^ 1);
      ExpectBytes(full, Tiling::kStageBytes);
      const int inner = step * kHopperStep;
      // One operand: its boxes, or this block's half of each for both blocks.
      const auto load = [&]<Contiguous kContiguous, int kRows, int kShare>(const CUtensorMap* map,
                                                                           uint32_t to, int first) {
        constexpr int kHalf = (kContiguous == Contiguous::kInner ? kRows : kHopperStep) / kShare;
        const int skip = kShare > 1 ? rank * kHalf : 0;
        constexpr int kBoxes = kContiguous == Contiguous::kInner ? 1 : (kRows + 63) / 64;
#pragma unroll
        for (int box = 0; box < kBoxes; ++box) {
          const uint32_t box_to = to + box * kOperandTile + skip * 128;
          const int row = kContiguous == Contiguous::kInner ? first + skip : inner + skip;
          const int column = kContiguous == Contiguous::kInner ? inner : first + box * 64;
          if constexpr (kShare > 1) {
            LoadBoxToCluster(box_to, map, row, column, full, kAll);
          } else {
            LoadBox(box_to, map, row, column, full);
          }
        }
      };
      load.template operator()<Tiling::kContiguousA, kHopperRows, kShareA>(
          &p.a, memory.A(place.stage), tile.row);
      load.template operator()<Tiling::kContiguousB, Tiling::kTileColumns, kShareB>(
          &p.b, memory.B(place.stage), tile.column);
      place.Next();
    });
  }
}

// By a warpgroup: multiplies its half of the block's tiles.
template <typename Tiling, typename Memory, typename Arguments>
__device__ void MultiplyTiles(const Memory& memory, const Arguments& p, int cluster, int clusters,
                              int rank, int warpgroup, char* shared) {
  using T = typename Tiling::Type;
  constexpr Contiguous kA = Tiling::kContiguousA, kB = Tiling::kContiguousB;
  constexpr int kBlocks = Tiling::kClusterRows * Tiling::kClusterColumns;
  constexpr int kBehind = 2;  // steps that the second warpgroup is behind the first
  const int thread = threadIdx.x % kWarpgroup;
  const auto release = [&](int stage) {
    if (thread < kBlocks) ArriveInCluster(memory.Free(stage), kBlocks > 1 ? thread : rank);
  };
  RingPlace<Memory::kStages> place;
  HopperTile tile;
  tile.rows = p.rows;
  tile.columns = p.columns;
  tile.warpgroup = warpgroup;
  int share;
  for (int turn = 0; p.order.template Get<Tiling>(cluster, clusters, turn, rank, tile, share);
       ++turn) {
    float sums[Tiling::kTileColumns / 2];
    [[maybe_unused]] float row_sums[4] = {};
    // The first can be no more than a ring ahead: one meeting a tile is enough.
    const bool staggered = tile.steps >= Memory::kStages;
    if (staggered && warpgroup == 1) asm volatile("bar.sync 3, 256;" ::: "memory");
    int done = 0, last = 0;
    ForEachStep(p.order, share, [&](int step) {
      AwaitBarrier(memory.Full(place.stage), place.phase);
      const uint64_t a = TileDescriptor<kA>(memory.A(place.stage) + warpgroup * kOperandTile);
      const uint64_t b = TileDescriptor<kB>(memory.B(place.stage));
      HoldRegisters(sums);
      HoldRegisters(row_sums);
      ProductsBegin();
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        MultiplyWide<T, kA, kB>(sums, a + k * kNextSixteen<kA>, b + k * kNextSixteen<kB>,
                                done + k > 0);
      }
      if constexpr (Tiling::kSumsOfA) {
        if (step % p.order.whole.tile_columns == tile.tile_column) {
          const uint64_t ones = TileDescriptor<Contiguous::kInner>(memory.base + Memory::kOnesAt);
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            MultiplyWide<T, kA, Contiguous::kInner>(row_sums, a + k * kNextSixteen<kA>, ones, true);
          }
        }
      }
      CommitProducts();
      HoldRegisters(sums);
      HoldRegisters(row_sums);
      if (staggered && warpgroup == 0 && done == kBehind - 1) {
        asm volatile("bar.arrive 3, 256;" ::: "memory");
      }
      if (done > 0) {
        AwaitProducts<1>();
        release(last);
      }
      ++done;
      last = place.stage;
      place.Next();
    });
    AwaitProducts<0>();
    HoldRegisters(sums);
    HoldRegisters(row_sums);
    release(last);
    tile.row += warpgroup * 64;
    if constexpr (Tiling::kSumsOfA) {
      p.epilogue(sums, row_sums, tile, shared);
    } else {
      p.epilogue(sums, tile, shared);
    }
  }
  AwaitStoredBoxes<0>();
}

template <typename Tiling, typename Epilogue, typename Order>
__global__ __launch_bounds__(kHopperThreads, 1) void HopperGemmKernel(
    const __grid_constant__ HopperArguments<Epilogue, Order> p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Memory = HopperMemory<Tiling, Epilogue>;
  constexpr int kBlocks = Tiling::kClusterRows * Tiling::kClusterColumns;
  extern __shared__ char raw[];
  char* const aligned =
      raw + (Memory::kAlignment - SharedAddress(raw) % Memory::kAlignment) % Memory::kAlignment;
  const Memory memory{SharedAddress(aligned)};
  const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
  const int rank = kBlocks > 1 ? ClusterRank() : 0;
  const int cluster = static_cast<int>(blockIdx.x) / kBlocks;
  const int clusters = static_cast<int>(gridDim.x) / kBlocks;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Memory::kStages; ++stage) {
      InitBarrier(memory.Full(stage), 1);
      InitBarrier(memory.Free(stage), 2 * kBlocks);
    }
    FenceArrivalInit();
    PrefetchMap(&p.a);
    PrefetchMap(&p.b);
  }
  if constexpr (Tiling::kSumsOfA) {
    using T = typename Tiling::Type;
    uint32_t* const ones = reinterpret_cast<uint32_t*>(aligned + Memory::kOnesAt);
    if (threadIdx.x < Memory::kOnesBytes / 4) ones[threadIdx.x] = PackTwo<T>(1, 1);
    FenceSharedWrites();
  }
  if constexpr (kBlocks > 1) {
    SyncCluster();
  } else {
    __syncthreads();
  }
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) LoadStages<Tiling>(memory, p, cluster, clusters, rank);
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const int consumer = warpgroup - 1;
    MultiplyTiles<Tiling>(memory, p, cluster, clusters, rank, consumer,
                          aligned + Memory::kEpilogueAt + consumer * Epilogue::kSharedBytes);
  }
  // A block's memory is there for as long as its neighbour may write to it.
  if constexpr (kBlocks > 1) SyncCluster();
#endif
}

struct HopperProblem {
  MappedMatrix a, b;  // as they lie in memory
  int64_t m = 0, n = 0, k = 0;
};

template <typename Tiling>
WholeTiles MakeWholeTiles(const HopperProblem& problem, int group) {
  WholeTiles order;
  const auto ceil = [](int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); };
  order.tile_rows = ceil(problem.m, kHopperRows);
  order.tile_columns = ceil(problem.n, Tiling::kTileColumns);
  order.cluster_rows = ceil(order.tile_rows, Tiling::kClusterRows);
  order.cluster_columns = ceil(order.tile_columns, Tiling::kClusterColumns);
  order.group = std::min(group, order.cluster_rows);
  order.steps = ceil(problem.k, kHopperStep);
  return order;
}

// Enqueues the product on at most `blocks` blocks, one for each multiprocessor.
template <typename Tiling, typename Epilogue, typename Order>
void LaunchHopperGemm(cudaStream_t stream, const HopperProblem& problem, const Order& order,
                      const Epilogue& epilogue, int64_t blocks) {
  using Memory = HopperMemory<Tiling, Epilogue>;
  constexpr unsigned kCluster = Tiling::kClusterRows * Tiling::kClusterColumns;
  constexpr auto kBoxRows = [](Contiguous contiguous, int rows, int share) {
    return (contiguous == Contiguous::kInner ? rows : kHopperStep) / share;
  };
  HopperArguments<Epilogue, Order> p;
  p.a = MapMatrix(problem.a, kBoxRows(Tiling::kContiguousA, kHopperRows, Tiling::kClusterColumns));
  p.b = MapMatrix(problem.b,
                  kBoxRows(Tiling::kContiguousB, Tiling::kTileColumns, Tiling::kClusterRows));
  p.rows = static_cast<int>(problem.m);
  p.columns = static_cast<int>(problem.n);
  p.order = order;
  p.epilogue = epilogue;
  const auto kernel = &HopperGemmKernel<Tiling, Epilogue, Order>;
  gpu::Check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Memory::kBytes),
      "cudaFuncSetAttribute");
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks / kCluster * kCluster));
  config.blockDim = dim3(kHopperThreads);
  config.dynamicSmemBytes = Memory::kBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  gpu::Check(cudaLaunchKernelEx(&config, kernel, p), "matrix product");
}

}  // namespace plimsoll::ops
