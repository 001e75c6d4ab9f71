// Gradients of weights on Hopper: sums over many rows (hopper_gemm.cuh, SharedTiles) in float32,
// written to D or added to acc, and the sums of A's rows, which are the bias's gradient:
//
//   D[m,n] = Σ over k of A[m,k] · B[n,k] + acc        row_sums[m] = Σ over k of A[m,k] + row_acc
//
// D is float32, or bf16 that is rounded stochastically (low_gradient_hopper.cu). If one cluster
// has computed a tile completely, its epilogue stores the tile. Shares of tiles, and the sums of
// rows, go to the workspace, and a second kernel adds them in the order of their numbers.
// Bytes: A and B once or a few times, from L2; D once; every share is written once and read once.
#pragma once

#include "ops/cuda/dependent_launch.cuh"
#include "ops/cuda/products/hopper_gemm.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/rounded_sum.h"

namespace plimsoll::ops {

template <typename Result>
struct HopperGradientArguments {
  Result* to;         // [rows, stride]
  const Result* acc;  // term that is added; may be `to`, or nullptr
  int64_t stride;
  float* row_sums;        // sums of rows; nullptr if not requested
  const float* row_acc;   // term that is added to the sums; may be `row_sums`, or nullptr
  float4* shares;         // [share][kColumns / 8][256 threads], in the order of registers
  float* row_shares;      // [record][rows of a tile]
  RoundingStream random;  // random bits for rounding a bf16 result
};

inline constexpr int kGradientRows = 128;  // number of rows of a tile, for both warpgroups

// Stores a thread's sums for its share of a tile.
template <int kOfTile, typename Arguments, int kCount>
__device__ void StoreShare(const Arguments& p, const float (&sums)[kCount],
                           const HopperTile& tile) {
  float4* const to = p.shares + int64_t{tile.share} * (kOfTile / 4 * 2 * kWarpgroup) +
                     tile.warpgroup * kWarpgroup + threadIdx.x % kWarpgroup;
#pragma unroll
  for (int i = 0; i < kOfTile; i += 4) {
    to[i / 4 * 2 * kWarpgroup] = make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
  }
}

// The epilogue for float32. kSums: the last four sums of a thread are row sums.
template <bool kSums>
struct StoreGradient {
  static constexpr int kSharedBytes = 0;
  static constexpr int kFours = 2;  // number of float4 that AddSharesKernel passes on at a time
  HopperGradientArguments<float> p;

  template <int kCount>
  __device__ void operator()(float (&sums)[kCount], const HopperTile& tile, char*) const {
    constexpr int kOfTile = kCount - (kSums ? 4 : 0);
    const ResultPlace at;
    if (kSums && tile.tile_column == 0 && threadIdx.x % 4 == 0) {
      float* const to =
          p.row_shares + int64_t{tile.record} * kGradientRows + tile.warpgroup * 64 + at.row;
      to[0] = sums[kOfTile];
      to[8] = sums[kOfTile + 2];
    }
    if (tile.share >= 0) {
      StoreShare<kOfTile>(p, sums, tile);
      return;
    }
#pragma unroll
    for (int i = 0; i < kOfTile; i += 2) {
      const int row = tile.row + at.Row(i);
      if (row < tile.rows) {
        StorePair(row, tile.column + at.Column(i), tile.columns, make_float2(sums[i], sums[i + 1]));
      }
    }
  }

  // Stores sums of shares: of this row and, in z and w, of the row eight below. Each group of four
  // is eight columns after the one before.
  __device__ void StoreFours(const float4 (&fours)[kFours], int row, int column, int rows,
                             int columns) const {
#pragma unroll
    for (int i = 0; i < kFours; ++i, column += 8) {
      if (row < rows) StorePair(row, column, columns, make_float2(fours[i].x, fours[i].y));
      if (row + 8 < rows) StorePair(row + 8, column, columns, make_float2(fours[i].z, fours[i].w));
    }
  }

 private:
  // Stores two neighbouring elements of a row; the second may be beyond the row's end.
  __device__ void StorePair(int64_t row, int column, int columns, float2 value) const {
    const int64_t at = row * p.stride + column;
    if (column + 1 < columns) {
      if (p.acc != nullptr) {
        const float2 old = *reinterpret_cast<const float2*>(p.acc + at);
        value.x += old.x;
        value.y += old.y;
      }
      *reinterpret_cast<float2*>(p.to + at) = value;
    }
  }
};

inline constexpr int kGradientThreads = 2 * kWarpgroup;

// The number of slices of a tile; one block of AddSharesKernel takes each slice.
template <typename Tiling, typename Epilogue>
inline constexpr int kGradientSlices = Tiling::kTileColumns / 8 / Epilogue::kFours;

// Adds the shares: the first blocks take slices of tiles, the others the sums of 32 rows each.
template <typename Tiling, typename Epilogue>
__global__ __launch_bounds__(kGradientThreads) void AddSharesKernel(
    const __grid_constant__ SharedTiles order, const __grid_constant__ Epilogue epilogue, int rows,
    int columns) {
  static_assert(Tiling::kTileRows == kGradientRows);
  constexpr int kBlocks = Tiling::kClusterBlocks, kFours = Epilogue::kFours;
  constexpr int kSlices = kGradientSlices<Tiling, Epilogue>;
  static_assert(kSlices * kFours * 8 == Tiling::kTileColumns);
  const auto& p = epilogue.p;
  __shared__ float shared[8][kWarp];
  AwaitFirstStage();
  int block = static_cast<int>(blockIdx.x);
  if (block < order.tiles * kBlocks * kSlices) {
    const int slice = block % kSlices, rank = block / kSlices % kBlocks;
    const int tile = block / (kSlices * kBlocks);
    const int begin = order.parts[tile], end = order.parts[tile + 1];
    if (end - begin == 1) return;  // the epilogue has stored it
    float4 sums[kFours] = {};
    const float4* const from = p.shares + slice * kFours * kGradientThreads + threadIdx.x;
#pragma unroll 8
    for (int part = begin; part < end; ++part) {
      const int64_t share = part * kBlocks + rank;
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        const float4 four = from[(share * kSlices * kFours + i) * kGradientThreads];
        sums[i].x += four.x;
        sums[i].y += four.y;
        sums[i].z += four.z;
        sums[i].w += four.w;
      }
    }
    HopperTile place;
    order.whole.Set<Tiling>(order.first + tile, rank, place);
    const ResultPlace at;
    epilogue.StoreFours(sums, place.row + static_cast<int>(threadIdx.x) / kWarpgroup * 64 + at.row,
                        place.column + at.column + slice * kFours * 8, rows, columns);
    return;
  }
  // Adds all shares of the first tile of a row, eight at a time.
  block -= order.tiles * kBlocks * kSlices;
  const int tile_row = block * kWarp / kGradientRows, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int first = static_cast<int>(threadIdx.x) / kWarp;
  const int within = block * kWarp % kGradientRows + lane;
  const int rank = Tiling::kClusterRows > 1 ? tile_row % Tiling::kClusterRows : 0;
  const int index = order.whole.Index(tile_row / Tiling::kClusterRows, 0);
  const bool whole = index < order.first;
  const int begin = whole ? index : order.first + order.parts[index - order.first];
  const int end = whole ? index + 1 : order.first + order.parts[index - order.first + 1];
  float sum = 0;
  for (int record = begin + first; record < end; record += 8) {
    sum += p.row_shares[(int64_t{record} * kBlocks + rank) * kGradientRows + within];
  }
  shared[first][lane] = sum;
  __syncthreads();
  const int row = block * kWarp + lane;
  if (first > 0 || row >= rows) return;
  sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += shared[i][lane];
  p.row_sums[row] = p.row_acc == nullptr ? sum : sum + p.row_acc[row];
}

template <typename Tiling>
SharedTiles MakeSharedTiles(const HopperProblem& problem, int group, int clusters) {
  SharedTiles order;
  order.whole = MakeWholeTiles<Tiling>(problem, group);
  const int tiles = order.whole.cluster_rows * order.whole.cluster_columns;
  order.turns = tiles / clusters;
  order.first = order.turns * clusters;
  order.tiles = tiles - order.first;
  std::fill(std::begin(order.begin), std::end(order.begin), uint16_t{0});
  if (order.tiles == 0) return order;
  const StepShares shares = ShareSteps(order.tiles, order.whole.steps, clusters);
  std::copy(shares.shares.begin(), shares.shares.end(), order.shares);
  std::copy(shares.begin.begin(), shares.begin.end(), order.begin);
  std::copy(shares.parts.begin(), shares.parts.end(), order.parts);
  return order;
}

// The bytes of the workspace: for the shares of tiles, and for those of row sums after them.
template <typename Tiling>
struct GradientBytes {
  explicit GradientBytes(const SharedTiles& order) {
    const int64_t parts = order.tiles == 0 ? 0 : order.parts[order.tiles];
    shares = parts * Tiling::kClusterBlocks * kGradientRows * Tiling::kTileColumns * 4;
    rows = (order.first + parts) * Tiling::kClusterBlocks * kGradientRows * 4;
  }
  int64_t shares, rows;
};

// Enqueues the gradient. The caller need not set the epilogue's pointers to the workspace, which
// has GradientBytes.
template <typename Tiling, typename Epilogue>
void LaunchHopperGradient(cudaStream_t stream, const HopperProblem& problem,
                          const SharedTiles& order, Epilogue epilogue, char* workspace,
                          int clusters) {
  epilogue.p.shares = reinterpret_cast<float4*>(workspace);
  epilogue.p.row_shares = reinterpret_cast<float*>(workspace + GradientBytes<Tiling>(order).shares);
  LaunchHopperGemm<Tiling>(stream, problem, order, epilogue, clusters * Tiling::kClusterBlocks);
  const int row_blocks = Tiling::kSumsOfA ? static_cast<int>((problem.m + kWarp - 1) / kWarp) : 0;
  const int blocks =
      order.tiles * Tiling::kClusterBlocks * kGradientSlices<Tiling, Epilogue> + row_blocks;
  if (blocks == 0) return;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kGradientThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  gpu::Check(cudaLaunchKernelEx(&config, &AddSharesKernel<Tiling, Epilogue>, order, epilogue,
                                static_cast<int>(problem.m), static_cast<int>(problem.n)),
             "shares of a matrix product");
}

}  // namespace plimsoll::ops
