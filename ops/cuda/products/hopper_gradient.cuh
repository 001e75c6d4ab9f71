// Gradients of weights on Hopper: sums over many rows (hopper_gemm.cuh, SharedTiles) in float32,
// written to D or added to acc, and the sums of A's rows, which are the bias's gradient:
//
//   D[m,n] = Σ over k of A[m,k] · B[n,k] + acc        row_sums[m] = Σ over k of A[m,k] + row_acc
//
// D is float32, or bf16 rounded stochastically, as ops/add_rounded.h says. If one cluster has
// computed a whole tile, its epilogue stores the tile. Shares of tiles, and the sums of rows, go to
// the workspace, and a second kernel adds them in the order of their numbers.
// Bytes: A and B once or a few times, from L2; D once; every share is written once and read once.
#pragma once

#include "ops/cuda/dependent_launch.cuh"
#include "ops/cuda/philox.cuh"
#include "ops/cuda/products/hopper_gemm.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/rounded_sum.h"
#include "ops/cuda/stochastic_rounding.cuh"

namespace plimsoll::ops {

struct HopperGradientArguments {
  void* to;         // [rows, stride], the result's type
  const void* acc;  // added; nullptr: none; may be `to`
  int64_t stride;
  RoundingStream random;  // for bf16
  float* row_sums;        // nullptr: not wanted
  const float* row_acc;   // added; nullptr: none; may be `row_sums`
  float4* shares;         // [share][kColumns / 8][256 threads], in the order of registers
  float* row_shares;      // [record][rows of a tile]
};

// What a thread holds of two neighbouring octets of columns, and of two rows, eight apart: as
// wgmma gives it, four lanes have two columns each of an octet.
struct TwoOctets {
  float4 octets[2];  // x, y: of the row; z, w: of the row eight below
};

// Where a thread's TwoOctets begin, and how far the result goes.
struct OctetsPlace {
  int row, column;  // of the thread's first element
  int rows, columns;
};

// Calls store(row, column, number, pair) for the pairs of neighbours that exist. `second`: the
// second octet does.
template <typename Store>
__device__ void ForPairs(const TwoOctets& values, const OctetsPlace& at, bool second,
                         const Store& store) {
#pragma unroll
  for (int octet = 0; octet < 2; ++octet) {
    const float4& v = values.octets[octet];
    const int column = at.column + octet * 8;
    if ((octet == 1 && !second) || column + 1 >= at.columns) continue;
    if (at.row < at.rows) store(at.row, column, 2 * octet, make_float2(v.x, v.y));
    if (at.row + 8 < at.rows) store(at.row + 8, column, 2 * octet + 1, make_float2(v.z, v.w));
  }
}

template <typename Result>
__device__ void StoreOctets(const HopperGradientArguments& p, const TwoOctets& values,
                            const OctetsPlace& at, bool second);

template <>
__device__ inline void StoreOctets<float>(const HopperGradientArguments& p, const TwoOctets& values,
                                          const OctetsPlace& at, bool second) {
  ForPairs(values, at, second, [&](int row, int column, int, float2 pair) {
    const int64_t index = row * p.stride + column;
    if (p.acc != nullptr) {
      const float2 old = *reinterpret_cast<const float2*>(static_cast<const float*>(p.acc) + index);
      pair.x += old.x;
      pair.y += old.y;
    }
    *reinterpret_cast<float2*>(static_cast<float*>(p.to) + index) = pair;
  });
}

// The random words for the four pairs of a thread's TwoOctets. An octet of a row is a block of
// Philox, whose four words belong to its four lanes: each lane computes the block of one pair's
// row and octet, and they exchange words. All lanes of the warp take part.
__device__ inline void DrawForPairs(const HopperGradientArguments& p, const OctetsPlace& at,
                                    uint32_t (&words)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 4;
  const int64_t row = at.row + lane % 2 * 8;
  const int64_t octet = (row * p.stride + at.column - 2 * lane) / 8 + lane / 2;
  const uint4 drawn =
      PhiloxBlock(p.random.rng, p.random.key, static_cast<uint64_t>(p.random.first_block + octet));
#pragma unroll
  for (int other = 0; other < 4; ++other) {
    const int mine = lane ^ other;  // the lane that this one exchanges with, and its word
    const uint32_t low = mine % 2 == 0 ? drawn.x : drawn.y,
                   high = mine % 2 == 0 ? drawn.z : drawn.w;
    const uint32_t got = __shfl_xor_sync(~0u, mine < 2 ? low : high, other);
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      if (pair == mine) words[pair] = got;
    }
  }
}

template <>
__device__ inline void StoreOctets<__nv_bfloat16>(const HopperGradientArguments& p,
                                                  const TwoOctets& values, const OctetsPlace& at,
                                                  bool second) {
  uint32_t words[4];
  DrawForPairs(p, at, words);
  ForPairs(values, at, second, [&](int row, int column, int pair, float2 sum) {
    const int64_t index = (row * p.stride + column) / 2;
    if (p.acc != nullptr) {
      const uint32_t old = static_cast<const uint32_t*>(p.acc)[index];
      sum.x += __uint_as_float(old << 16);
      sum.y += __uint_as_float(old & 0xffff0000);
    }
    static_cast<uint32_t*>(p.to)[index] = RoundPairStochastically(sum.x, sum.y, words[pair]);
  });
}

inline constexpr int kGradientRows = 128;  // of a tile: both warpgroups

// kSums: the last four sums of a thread are those of rows.
template <bool kSums, typename Result>
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
    static_assert(kOfTile % 8 == 0);
#pragma unroll
    for (int i = 0; i < kOfTile; i += 8) {
      const TwoOctets values = {{{sums[i], sums[i + 1], sums[i + 2], sums[i + 3]},
                                 {sums[i + 4], sums[i + 5], sums[i + 6], sums[i + 7]}}};
      const OctetsPlace place = {tile.row + at.row, tile.column + at.column + i / 4 * 8, tile.rows,
                                 tile.columns};
      StoreOctets<Result>(p, values, place, true);
    }
  }
};

inline constexpr int kGradientSlices = 16;  // of a tile, each taken by one block
inline constexpr int kGradientThreads = 2 * kWarpgroup;

// Adds the shares: the first blocks take slices of tiles, the others the sums of 32 rows each.
template <typename Tiling, typename Result>
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
    static_assert(kSlice == 2);
    const int four = slice * kSlice;
    if (four >= kFours) return;
    StoreOctets<Result>(p, {{sums[0], sums[1]}},
                        {row, place.column + at.column + four * 8, rows, columns},
                        four + 1 < kFours);
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
template <typename Tiling, typename Result>
void LaunchHopperGradient(cudaStream_t stream, const HopperProblem& problem,
                          const SharedTiles& order, HopperGradientArguments p, char* workspace,
                          int clusters) {
  p.shares = reinterpret_cast<float4*>(workspace);
  p.row_shares = reinterpret_cast<float*>(workspace + GradientBytes<Tiling>(order).shares);
  LaunchHopperGemm<Tiling>(stream, problem, order, StoreGradient<Tiling::kSumsOfA, Result>{p},
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
  gpu::Check(cudaLaunchKernelEx(&config, &AddSharesKernel<Tiling, Result>, order, p,
                                static_cast<int>(problem.m), static_cast<int>(problem.n)),
             "shares of a matrix product");
}

}  // namespace plimsoll::ops
