// Matrix products of 16-bit operands on Hopper, with a custom epilogue:
//
//   sums[m,n] = Σ over k of A[m,k] · B[n,k]        float32; the epilogue processes them
//
// Either operand may lie in memory with k contiguous (Contiguous::kInner: A is [m,k], B is [n,k],
// as in y = x · weightᵀ) or with its other dimension contiguous (kOuter: A is [k,m], B is [k,n]).
//
// A block has two warpgroups that multiply (Warpgroups in hopper_tiles.cuh) and one whose first
// thread has the copy engine fill a ring of stages, 64 of k each, in shared memory. Two blocks of a
// cluster have neighbouring tiles and share an operand: each loads half of it for both. Blocks are
// persistent and take tile after tile; while one tile's epilogue runs, the ring is filled for the
// next.
//
// An epilogue is a struct of plain values, passed to the kernel as a __grid_constant__ parameter
// (it may hold tensor maps). kCount is half the tile's columns:
//
//   static constexpr int kSharedBytes;     of each warpgroup, a multiple of 1024; may be 0
//   void operator()(float (&sums)[kCount], const HopperTile& tile, char* shared) const;
//
// An epilogue that only has to store may do so while the next tile is multiplied. Instead of the
// operator it has:
//
//   struct Ahead<kCount>                   registers that are loaded while the sums are computed
//   struct Held<kCount>                    registers that hold what is to be stored
//   static constexpr int kPieces<kCount>   number of pieces to store
//   void Load(Ahead&, tile) const;
//   void Hold(sums, ahead, tile, held) const;
//   void Store(held, piece, shared) const;      after a step of the next tile
//
// They are called by the 128 threads of a warpgroup for each of its 64 × kColumns results. sums[i]
// is the element (tile.row + at.Row(i), tile.column + at.Column(i)) with ResultPlace at
// (wgmma.cuh): the columns of a row lie in the 4 threads of a quad, two neighbours in registers i
// and i + 1 (i even). Elements from tile.rows or tile.columns on are not part of the result: their
// sums are zeros. `shared` is aligned to 1024 bytes and keeps its content between calls. The
// threads may synchronize by tile.Barrier(), and only by it. The kernel waits at its end for boxes
// stored by the copy engine.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/cuda/products/hopper_tiles.cuh"
#include "ops/cuda/products/wide_products.cuh"
#include "ops/cuda/tensor_copy.cuh"
#include "ops/cuda/tensor_map.h"

namespace plimsoll::ops {

template <typename Epilogue, typename Order>
struct HopperArguments {
  CUtensorMap a, b;
  int rows, columns;
  Order order;
  Epilogue epilogue;
};

// Shared memory: the stages (A, then B), the epilogue's memory of both warpgroups, and two barriers
// for each stage: `full` opens when its bytes have arrived, `free` when all readers are done with
// it.
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

  uint32_t base;  // address of the first stage in shared memory

  __device__ uint32_t A(int stage) const { return base + stage * Tiling::kStageBytes; }
  __device__ uint32_t B(int stage) const { return A(stage) + Tiling::kBytesA; }
  static constexpr int OnesAt(int stage) {
    return stage * Tiling::kStageBytes + Tiling::kLoadedBytes;
  }
  __device__ uint32_t Full(int stage) const { return base + kBarriersAt + stage * 16; }
  __device__ uint32_t Free(int stage) const { return Full(stage) + 8; }
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

// Run by one thread: lets the copy engine load the stages of all of the block's tiles.
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
      const uint32_t full = memory.Full(place.index);
      AwaitBarrier(memory.Free(place.index), place.round ^ 1);
      ExpectBytes(full, Tiling::kLoadedBytes);
      const int inner = step * kHopperStep;
      // Loads one operand: its boxes or, if two blocks share it, half of each box for both blocks.
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
      load.template operator()<Tiling::kContiguousA, Tiling::kTileRows, kShareA>(
          &p.a, memory.A(place.index), tile.row);
      load.template operator()<Tiling::kContiguousB, Tiling::kTileColumns, kShareB>(
          &p.b, memory.B(place.index), tile.column);
      place.Step();
    });
  }
}

// Decides which warpgroup may wait for stages.
struct Turns {
  __device__ static void Await(int warpgroup) {
    if (warpgroup == 0) {
      asm volatile("bar.sync 3, 256;" ::: "memory");
    } else {
      asm volatile("bar.sync 4, 256;" ::: "memory");
    }
  }
  __device__ static void Pass(int warpgroup) {
    if (warpgroup == 0) {
      asm volatile("bar.arrive 3, 256;" ::: "memory");
    } else {
      asm volatile("bar.arrive 4, 256;" ::: "memory");
    }
  }
};

// Registers held by an epilogue; Nothing for an epilogue without them.
struct Nothing {};
template <typename Epilogue, int kCount>
concept HoldsResults = requires {
  typename Epilogue::template Held<kCount>;
};
template <typename Epilogue, int kCount>
struct HeldTypes {
  using Held = Nothing;
  using Ahead = Nothing;
};
template <typename Epilogue, int kCount>
requires HoldsResults<Epilogue, kCount>
struct HeldTypes<Epilogue, kCount> {
  using Held = typename Epilogue::template Held<kCount>;
  using Ahead = typename Epilogue::template Ahead<kCount>;
};
template <typename Epilogue, int kCount>
using HeldOf = typename HeldTypes<Epilogue, kCount>::Held;
template <typename Epilogue, int kCount>
using AheadOf = typename HeldTypes<Epilogue, kCount>::Ahead;
template <typename Epilogue, int kCount>
constexpr int PiecesOf() {
  if constexpr (HoldsResults<Epilogue, kCount>) return Epilogue::template kPieces<kCount>;
  return 0;
}

// Run by a warpgroup: multiplies its half of the block's tiles, or every second tile.
template <typename Tiling, typename Memory, typename Arguments>
__device__ void MultiplyTiles(const Memory& memory, const Arguments& p, int cluster, int clusters,
                              int rank, int warpgroup, char* shared) {
  using T = typename Tiling::Type;
  constexpr Contiguous kA = Tiling::kContiguousA, kB = Tiling::kContiguousB;
  constexpr int kBlocks = Tiling::kClusterBlocks;
  constexpr int kCount = Tiling::kCount;
  const int thread = threadIdx.x % kWarpgroup;
  // When one warp's wait for the products returns, the products of its complete warpgroup are done.
  const auto release = [&](int stage) {
    if (thread < kBlocks) ArriveInCluster(memory.Free(stage), kBlocks > 1 ? thread : rank);
  };
  const int half = Tiling::kTogether ? warpgroup : 0;
  constexpr int kBehind = 1;  // steps
  using Epilogue = decltype(p.epilogue);
  constexpr bool kHolds = HoldsResults<Epilogue, kCount>;
  constexpr int kPieces = PiecesOf<Epilogue, kCount>();
  [[maybe_unused]] HeldOf<Epilogue, kCount> held;
  [[maybe_unused]] int stored = kPieces;
  [[maybe_unused]] const auto store_held = [&](int until) {
    if constexpr (kHolds) {
      for (; stored < until; ++stored) p.epilogue.Store(held, stored, shared);
    }
  };
  RingPlace<Memory::kStages> place;
  HopperTile tile;
  tile.rows = p.rows;
  tile.columns = p.columns;
  tile.warpgroup = warpgroup;
  int share = 0, turn = 0;
  const auto get = [&] {
    return p.order.template Get<Tiling>(cluster, clusters, turn, rank, tile, share);
  };
  for (bool more = get(); more;) {
    if (!Tiling::kTogether && turn % 2 != warpgroup) {
      place.Skip(tile.steps);
      ++turn;
      more = get();
      continue;
    }
    // The second warpgroup stays one step later than the first, and computes while the first is
    // between tiles. The first can't be more than a ring ahead, so synchronizing once per tile is
    // enough.
    const bool staggered = Tiling::kTogether && tile.steps >= Memory::kStages;
    if (staggered && warpgroup == 1) Turns::Await(1);
    // The stages' phases repeat, so a warpgroup may only wait for those of the next tile.
    if (!Tiling::kTogether && turn > 0) Turns::Await(warpgroup);
    float sums[kCount];
    int done = 0, last = 0;
    ForEachStep(p.order, share, [&](int) {
      AwaitBarrier(memory.Full(place.index), place.round);
      const uint64_t a = TileDescriptor<kA>(memory.A(place.index) + half * kOperandTile);
      const uint64_t b = TileDescriptor<kB>(memory.B(place.index));
      HoldRegisters(sums);
      ProductsBegin();
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        MultiplyWide<T, kA, kB>(sums, a + k * kNextSixteen<kA>, b + k * kNextSixteen<kB>,
                                done + k > 0);
      }
      CommitProducts();
      HoldRegisters(sums);
      if (!Tiling::kTogether && done == tile.steps - 1) Turns::Pass(1 - warpgroup);
      if (done > 0) {
        AwaitProducts<1>();
        release(last);
        if (staggered && warpgroup == 0 && done == kBehind) Turns::Pass(1);
      }
      if constexpr (kHolds) {
        if (stored < kPieces) store_held(stored + 1);
      }
      ++done;
      last = place.index;
      place.Step();
    });
    // This runs while the last products are computed.
    if constexpr (kHolds) store_held(kPieces);
    HopperTile finished = tile;
    finished.row += half * 64;
    ++turn;
    more = get();
    AheadOf<Epilogue, kCount> ahead;
    if constexpr (kHolds) p.epilogue.Load(ahead, finished);
    AwaitProducts<0>();
    HoldRegisters(sums);
    release(last);
    if constexpr (kHolds) {
      p.epilogue.Hold(sums, ahead, finished, held);
      stored = 0;
    } else {
      p.epilogue(sums, finished, shared);
    }
  }
  if (!Tiling::kTogether && turn > 0 && turn % 2 == warpgroup) Turns::Await(warpgroup);
  store_held(kPieces);
  AwaitStoredBoxes<0>();
}

template <typename Tiling, typename Epilogue, typename Order>
__global__ __launch_bounds__(kHopperThreads, 1) void HopperGemmKernel(
    const __grid_constant__ HopperArguments<Epilogue, Order> p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Memory = HopperMemory<Tiling, Epilogue>;
  constexpr int kBlocks = Tiling::kClusterBlocks;
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
      InitBarrier(memory.Free(stage), kBlocks * (Tiling::kTogether ? 2 : 1));
    }
    FenceArrivalInit();
    PrefetchMap(&p.a);
    PrefetchMap(&p.b);
  }
  if constexpr (Tiling::kSumsOfA) {
    for (int stage = 0; stage < Memory::kStages; ++stage) {
      auto* const ones = reinterpret_cast<uint32_t*>(aligned + Memory::OnesAt(stage));
      for (int i = threadIdx.x; i < Tiling::kOnesBytes / 4; i += kHopperThreads) {
        ones[i] = PackTwo<typename Tiling::Type>(1, 1);
      }
    }
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
  // A block's memory must remain valid as long as its neighbour may write to it.
  if constexpr (kBlocks > 1) SyncCluster();
#endif
}

// Enqueues the product on at most `blocks` blocks, one for each multiprocessor.
template <typename Tiling, typename Epilogue, typename Order>
void LaunchHopperGemm(cudaStream_t stream, const HopperProblem& problem, const Order& order,
                      const Epilogue& epilogue, int64_t blocks) {
  using Memory = HopperMemory<Tiling, Epilogue>;
  constexpr unsigned kCluster = Tiling::kClusterBlocks;
  constexpr auto kBoxRows = [](Contiguous contiguous, int rows, int share) {
    return (contiguous == Contiguous::kInner ? rows : kHopperStep) / share;
  };
  HopperArguments<Epilogue, Order> p;
  p.a = MapMatrix(problem.a,
                  kBoxRows(Tiling::kContiguousA, Tiling::kTileRows, Tiling::kClusterColumns));
  p.b = MapMatrix(problem.b,
                  kBoxRows(Tiling::kContiguousB, Tiling::kTileColumns, Tiling::kClusterRows));
  p.rows = static_cast<int>(problem.m);
  p.columns = static_cast<int>(problem.n);
  p.order = order;
  p.epilogue = epilogue;
  const auto kernel = &HopperGemmKernel<Tiling, Epilogue, Order>;
  gpu::AllowSharedMemory(kernel, Memory::kBytes);
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
