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
#include "ops/cuda/tensor_copy.cuh"
#include "ops/cuda/tensor_map.h"
#include "ops/cuda/wide_products.cuh"

namespace plimsoll::ops {

// What a warpgroup has to do next.
struct HopperTile {
  int row, column;    // of its first element in the result
  int rows, columns;  // of the whole result
  int tile;           // number of the block's tile: its row of tiles · tile columns + its column
  int tile_column;    // which of the row's tiles
  int first, count;   // steps of 64 along k that are summed here
  int part;           // of several that share the tile's steps
  int warpgroup;      // 0 or 1

  __device__ void Barrier() const {
    asm volatile("bar.sync %0, 128;" ::"r"(1 + warpgroup) : "memory");
  }
};

inline constexpr int kHopperRows = 128;  // of a block's tile
inline constexpr int kHopperStep = 64;   // along k
inline constexpr int kHopperThreads = 3 * kWarpgroup;

// How a product is cut. kSharedB: two blocks of a cluster lie one below the other and share B;
// otherwise they lie side by side and share A. kBlocks = 1: no clusters.
template <typename T, int kColumns, Contiguous kA, Contiguous kB, int kBlocks = 2,
          bool kSharedB = true>
struct HopperTiling {
  using Type = T;
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

  // The `turn`th of the cluster; false when there is none.
  template <typename Tiling>
  __device__ bool Get(int cluster, int clusters, int turn, int rank, HopperTile& tile) const {
    const int64_t index = int64_t{turn} * clusters + cluster;
    if (index >= int64_t{cluster_rows} * cluster_columns) return false;
    const int at = static_cast<int>(index);
    const int band = at / (group * cluster_columns), within = at % (group * cluster_columns);
    const int high = min(group, cluster_rows - band * group);
    int row = band * group + within % high, column = within / high;
    row = row * Tiling::kClusterRows + (Tiling::kClusterRows > 1 ? rank : 0);
    column = column * Tiling::kClusterColumns + (Tiling::kClusterColumns > 1 ? rank : 0);
    tile.row = row * kHopperRows;
    tile.column = column * Tiling::kTileColumns;
    tile.tile = row * tile_columns + column;
    tile.tile_column = column;
    tile.first = 0;
    tile.count = steps;
    tile.part = 0;
    return true;
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
  static constexpr int kStages = std::min(
      kMostStages, (kMost - kAlignment - kEpilogueBytes - kBarrierBytes) / Tiling::kStageBytes);
  static constexpr int kEpilogueAt = kStages * Tiling::kStageBytes;
  static constexpr int kBarriersAt = kEpilogueAt + kEpilogueBytes;
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

// By one thread: has the copy engine load the stages of all of the block's tiles.
template <typename Tiling, typename Memory, typename Arguments>
__device__ void LoadStages(const Memory& memory, const Arguments& p, int cluster, int clusters,
                           int rank) {
  constexpr int kShareB = Tiling::kClusterRows, kShareA = Tiling::kClusterColumns;
  constexpr uint16_t kAll = 3;
  RingPlace<Memory::kStages> place;
  HopperTile tile;
  for (int turn = 0; p.order.template Get<Tiling>(cluster, clusters, turn, rank, tile); ++turn) {
    for (int step = tile.first; step < tile.first + tile.count; ++step) {
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
    }
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
  for (int turn = 0; p.order.template Get<Tiling>(cluster, clusters, turn, rank, tile); ++turn) {
    float sums[Tiling::kTileColumns / 2];
    // The first can be no more than a ring ahead: one meeting a tile is enough.
    const bool staggered = tile.count >= Memory::kStages;
    if (staggered && warpgroup == 1) asm volatile("bar.sync 3, 256;" ::: "memory");
    int last = 0;
    for (int step = 0; step < tile.count; ++step) {
      AwaitBarrier(memory.Full(place.stage), place.phase);
      const uint64_t a = TileDescriptor<kA>(memory.A(place.stage) + warpgroup * kOperandTile);
      const uint64_t b = TileDescriptor<kB>(memory.B(place.stage));
      HoldRegisters(sums);
      ProductsBegin();
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        MultiplyWide<T, kA, kB>(sums, a + k * kNextSixteen<kA>, b + k * kNextSixteen<kB>,
                                step + k > 0);
      }
      CommitProducts();
      HoldRegisters(sums);
      if (staggered && warpgroup == 0 && step == kBehind - 1) {
        asm volatile("bar.arrive 3, 256;" ::: "memory");
      }
      if (step > 0) {
        AwaitProducts<1>();
        release(last);
      }
      last = place.stage;
      place.Next();
    }
    AwaitProducts<0>();
    HoldRegisters(sums);
    release(last);
    tile.row += warpgroup * 64;
    p.epilogue(sums, tile, shared);
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
