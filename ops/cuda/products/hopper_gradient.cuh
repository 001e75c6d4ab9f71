// Gradients of weights on Hopper: sums over many rows (hopper_gemm.cuh, SharedTiles) in float32,
// written to D or added to acc, and the sums of A's rows, which are the bias's gradient:
//
//   D[m,n] = Σ over k of A[m,k] · B[n,k] + acc        row_sums[m] = Σ over k of A[m,k] + row_acc
//
// If one cluster has computed a whole tile, its epilogue stores the tile. Shares of tiles, and the
// sums of rows, go to the workspace, and a second kernel adds them in the order of their numbers.
// Bytes: A and B once or a few times, from L2; D once; every share is written once and read once.
#pragma once

#include "ops/cuda/dependent_launch.cuh"
#include "ops/cuda/products/hopper_gemm.cuh"
#include "ops/cuda/reduce.cuh"

namespace plimsoll::ops {

struct HopperGradientArguments {
  float* to;         // [rows, stride]
  const float* acc;  // added; nullptr: none; may be `to`
  int64_t stride;
  float* row_sums;       // nullptr: not wanted
  const float* row_acc;  // added; nullptr: none; may be `row_sums`
  float4* shares;        // [share][kColumns / 8][256 threads], in the order of registers
  float* row_shares;     // [record][rows of a tile]
};

// Stores two neighbours of a row; the second may be beyond the row's end.
__device__ inline void StorePair(const HopperGradientArguments& p, int64_t row, int column,
                                 int columns, float2 value) {
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

inline constexpr int kGradientRows = 128;  // of a tile: both warpgroups

// kSums: the last four sums of a thread are those of rows.
template <bool kSums>
struct StoreGradient {
  static constexpr int kSharedBytes = 0;
  HopperGradientArguments p;

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
      float4* const to = p.shares + int64_t{tile.share} * (kOfTile / 4 * 2 * kWarpgroup) +
                         tile.warpgroup * kWarpgroup + threadIdx.x % kWarpgroup;
#pragma unroll
      for (int i = 0; i < kOfTile; i += 4) {
        to[i / 4 * 2 * kWarpgroup] = make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kOfTile; i += 2) {
      const int row = tile.row + at.Row(i);
      if (row < tile.rows) {
        StorePair(p, row, tile.column + at.Column(i), tile.columns,
                  make_float2(sums[i], sums[i + 1]));
      }
    }
  }
};

inline constexpr int kGradientSlices = 16;  // of a tile, each taken by one block
inline constexpr int kGradientThreads = 2 * kWarpgroup;

// Adds the shares: the first blocks take slices of tiles, the others the sums of 32 rows each.
template <typename Tiling>
__global__ __launch_bounds__(kGradientThreads) void AddSharesKernel(
    const __grid_constant__ SharedTiles order, const __grid_constant__ HopperGradientArguments p,
    int rows, int columns) {
  static_assert(Tiling::kTileRows == kGradientRows);
  constexpr int kBlocks = Tiling::kClusterBlocks, kFours = Tiling::kTileColumns / 8;
  constexpr int kSlice = (kFours + kGradientSlices - 1) / kGradientSlices;
  __shared__ float shared[8][kWarp];
  AwaitFirstStage();
  int block = static_cast<int>(blockIdx.x);
  if (block < order.tiles * kBlocks * kGradientSlices) {
    const int slice = block % kGradientSlices, rank = block / kGradientSlices % kBlocks;
    const int tile = block / (kGradientSlices * kBlocks);
    const int begin = order.parts[tile], end = order.parts[tile + 1];
    if (end - begin == 1) return;  // the epilogue has stored it
    float4 sums[kSlice] = {};
    const float4* const from = p.shares + threadIdx.x;
#pragma unroll 8
    for (int part = begin; part < end; ++part) {
      const int64_t share = part * kBlocks + rank;
#pragma unroll
      for (int i = 0; i < kSlice; ++i) {
        if (slice * kSlice + i < kFours) {
          const float4 four = from[(share * kFours + slice * kSlice + i) * kGradientThreads];
          sums[i].x += four.x;
          sums[i].y += four.y;
          sums[i].z += four.z;
          sums[i].w += four.w;
        }
      }
    }
    HopperTile place;
    order.whole.Set<Tiling>(order.first + tile, rank, place);
    const ResultPlace at;
    const int row = place.row + static_cast<int>(threadIdx.x) / kWarpgroup * 64 + at.row;
#pragma unroll
    for (int i = 0; i < kSlice; ++i) {
      const int four = slice * kSlice + i;
      const int column = place.column + at.column + four * 8;
      if (four >= kFours) break;
      if (row < rows) StorePair(p, row, column, columns, make_float2(sums[i].x, sums[i].y));
      if (row + 8 < rows) StorePair(p, row + 8, column, columns, make_float2(sums[i].z, sums[i].w));
    }
    return;
  }
  // All shares of the first tile of a row, eight at a time.
  block -= order.tiles * kBlocks * kGradientSlices;
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

// Bytes of the workspace: the shares of tiles, then those of the sums of rows.
template <typename Tiling>
struct GradientBytes {
  explicit GradientBytes(const SharedTiles& order) {
    const int64_t parts = order.tiles == 0 ? 0 : order.parts[order.tiles];
    shares = parts * Tiling::kClusterBlocks * kGradientRows * Tiling::kTileColumns * 4;
    rows = (order.first + parts) * Tiling::kClusterBlocks * kGradientRows * 4;
  }
  int64_t shares, rows;
};

// Enqueues the gradient. `p` needs no pointers to the workspace, which has GradientBytes.
template <typename Tiling>
void LaunchHopperGradient(cudaStream_t stream, const HopperProblem& problem,
                          const SharedTiles& order, HopperGradientArguments p, char* workspace,
                          int clusters) {
  p.shares = reinterpret_cast<float4*>(workspace);
  p.row_shares = reinterpret_cast<float*>(workspace + GradientBytes<Tiling>(order).shares);
  LaunchHopperGemm<Tiling>(stream, problem, order, StoreGradient<Tiling::kSumsOfA>{p},
                           clusters * Tiling::kClusterBlocks);
  const int row_blocks = Tiling::kSumsOfA ? static_cast<int>((problem.m + kWarp - 1) / kWarp) : 0;
  const int blocks = order.tiles * Tiling::kClusterBlocks * kGradientSlices + row_blocks;
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
  gpu::Check(cudaLaunchKernelEx(&config, &AddSharesKernel<Tiling>, order, p,
                                static_cast<int>(problem.m), static_cast<int>(problem.n)),
             "shares of a matrix product");
}

}  // namespace plimsoll::ops
