// Gradients of weights in bf16 that are added to earlier ones, on Hopper: the product rounds in its
// epilogue (hopper_gradient.cuh):
//
//   D[m,n] = acc + sums, rounded stochastically            ops/elementwise/add_rounded.h
#include <cuda_bf16.h>

#include <algorithm>

#include "ops/cuda/philox.cuh"
#include "ops/cuda/products/gemm_forms.h"
#include "ops/cuda/products/hopper_gradient.cuh"
#include "ops/cuda/products/low_gradient.h"
#include "ops/cuda/stochastic_rounding.cuh"
#include "ops/cuda/transpose_quad.cuh"

namespace plimsoll::ops {

// The four threads of a quad hold two columns each of every octet of a row's columns. They exchange
// sums, so that of four octets each thread has one: 16 bytes of acc and of D, and one block of
// Philox. Loads of acc are in flight while the last products are computed. Bytes: acc and D once.
struct StoreLowGradient {
  static constexpr int kSharedBytes = 0;
  static constexpr int kFours = 4;  // number of float4 that AddSharesKernel passes on at a time
  HopperGradientArguments<__nv_bfloat16> p;

  // Octet 2g + h of a thread is in row `row` + 8h, beginning at column `column` + 32g.
  struct Place {
    __device__ explicit Place(const HopperTile& tile)
        : row(tile.row + ResultPlace().row), column(tile.column + OctetOfFour() * 8) {}
    __device__ int Row(int i) const { return row + i % 2 * 8; }
    __device__ int Column(int i) const { return column + i / 2 * 32; }
    int row, column;
  };

  static constexpr int kOctetsAhead = 6;
  template <int kCount>
  struct Ahead {
    uint4 acc[kOctetsAhead];
    uint2 key;
  };
  // Stores need no registers that hold results, because nothing waits for them.
  template <int kCount>
  struct Held {};
  template <int kCount>
  static constexpr int kPieces = 0;
  template <int kCount>
  __device__ void Store(const Held<kCount>&, int, char*) const {}

  template <int kCount>
  __device__ void Load(Ahead<kCount>& ahead, const HopperTile& tile) const {
    if (tile.share >= 0) return;
    ahead.key = PhiloxKey(p.random.rng);
    const Place place(tile);
#pragma unroll
    for (int i = 0; i < kOctetsAhead; ++i) {
      ahead.acc[i] = LoadOctet(place.Row(i), tile.rows, place.Column(i), tile.columns);
    }
  }

  template <int kCount>
  __device__ void Hold(float (&sums)[kCount], Ahead<kCount>& ahead, const HopperTile& tile,
                       Held<kCount>&) const {
    if (tile.share >= 0) return StoreShare<kCount>(p, sums, tile);
    const Place place(tile);
#pragma unroll
    for (int i = 0; i < kCount / 8; ++i) {
      const int first = i / 2 * 16 + i % 2 * 2;
      float even[4], uneven[4];
#pragma unroll
      for (int octet = 0; octet < 4; ++octet) {
        even[octet] = sums[first + octet * 4];
        uneven[octet] = sums[first + octet * 4 + 1];
      }
      uint4& acc = ahead.acc[i % kOctetsAhead];
      const uint4 rounded = Round(even, uneven, acc, ahead.key, place.Row(i), place.Column(i));
      const int next = i + kOctetsAhead;
      if (next < kCount / 8) {
        acc = LoadOctet(place.Row(next), tile.rows, place.Column(next), tile.columns);
      }
      StoreOctet(rounded, place.Row(i), tile.rows, place.Column(i), tile.columns);
    }
  }

  // Like StoreGradient::StoreFours.
  __device__ void StoreFours(const float4 (&fours)[kFours], int row, int column, int rows,
                             int columns) const {
    const uint2 key = PhiloxKey(p.random.rng);
    column += OctetOfFour() * 8 - ResultPlace().column;
#pragma unroll
    for (int h = 0; h < 2; ++h, row += 8) {
      float even[4], uneven[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        even[i] = h == 0 ? fours[i].x : fours[i].z;
        uneven[i] = h == 0 ? fours[i].y : fours[i].w;
      }
      const uint4 acc = LoadOctet(row, rows, column, columns);
      StoreOctet(Round(even, uneven, acc, key, row, column), row, rows, column, columns);
    }
  }

 private:
  // The index of this thread's octet among four.
  __device__ static int OctetOfFour() { return static_cast<int>(threadIdx.x) % 4; }

  // Octets are read and written once, so the L2 cache is left to the product's operands.
  __device__ uint4 LoadOctet(int row, int rows, int column, int columns) const {
    if (row >= rows || column >= columns) return {};
    return __ldcs(reinterpret_cast<const uint4*>(p.acc + row * p.stride + column));
  }
  __device__ void StoreOctet(uint4 octet, int row, int rows, int column, int columns) const {
    if (row >= rows || column >= columns) return;
    __stcs(reinterpret_cast<uint4*>(p.to + row * p.stride + column), octet);
  }

  // Rounds this thread's octet, from the quad's sums of columns with even and with odd numbers.
  __device__ uint4 Round(float (&even)[4], float (&uneven)[4], uint4 acc, uint2 key, int row,
                         int column) const {
    TransposeQuad(even);
    TransposeQuad(uneven);
    const int64_t block = p.random.first_block + (row * p.stride + column) / 8;
    const uint4 words = PhiloxBlock(key, p.random.key, static_cast<uint64_t>(block));
    // The bits of a sum. If it is not a number, it is 0x7fffffff, which must not overflow.
    const auto bits = [](float sum, uint32_t old) {
      return static_cast<uint32_t>(min(__float_as_int(sum + __uint_as_float(old)), 0x7fff0000));
    };
    const auto round = [&](int i, uint32_t old, uint32_t word) {
      return UpperHalves(bits(even[i], old << 16) + (word & 0xffff),
                         bits(uneven[i], old & 0xffff0000) + (word >> 16));
    };
    return {round(0, acc.x, words.x), round(1, acc.y, words.y), round(2, acc.z, words.z),
            round(3, acc.w, words.w)};
  }
};

namespace {

using Tiling =
    HopperTiling<__nv_bfloat16, 256, Contiguous::kOuter, Contiguous::kOuter, Warpgroups::kTogether>;

// Tiles computed at the same time form squares: with 66 clusters, eight rows of clusters by eight
// columns (WholeTiles).
constexpr int kGroup = 8;

int Clusters(int multiprocessors) {
  return std::min(multiprocessors / 2, SharedTiles::kMostClusters);
}

HopperProblem ProblemOf(const LowGradient& gradient) {
  const GemmProblem& p = gradient.problem;
  const GemmBuffers& buffers = gradient.buffers;
  return {{buffers.a, p.type_a, p.k, p.m, p.lda},
          {buffers.b, p.type_b, p.k, p.n, p.ldb},
          p.m,
          p.n,
          p.k};
}

bool Aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

}  // namespace

bool RoundsInEpilogue(const LowGradient& gradient, int multiprocessors) {
  const GemmProblem& p = gradient.problem;
  const GemmBuffers& buffers = gradient.buffers;
  constexpr auto kBf16 = graph::DType::kBFloat16;
  if (!p.trans_a || p.trans_b || p.type_a != kBf16 || p.type_b != kBf16) return false;
  const HopperProblem problem = ProblemOf(gradient);
  if (p.k == 0 || p.n % 8 != 0 || !Aligned(buffers.c) || !Aligned(buffers.d) ||
      p.k > int64_t{65535} * kHopperStep || !CanMap(problem.a) || !CanMap(problem.b)) {
    return false;
  }
  const GradientBytes<Tiling> bytes(
      MakeSharedTiles<Tiling>(problem, kGroup, Clusters(multiprocessors)));
  return bytes.shares + bytes.rows <= buffers.workspace_bytes;
}

void AddInEpilogue(cudaStream_t stream, const LowGradient& gradient, int multiprocessors) {
  HopperGradientArguments<__nv_bfloat16> arguments{};
  arguments.to = static_cast<__nv_bfloat16*>(gradient.buffers.d);
  arguments.acc = static_cast<const __nv_bfloat16*>(gradient.buffers.c);
  arguments.stride = gradient.problem.ldc;
  arguments.random = gradient.random;
  const HopperProblem problem = ProblemOf(gradient);
  const int clusters = Clusters(multiprocessors);
  LaunchHopperGradient<Tiling>(stream, problem, MakeSharedTiles<Tiling>(problem, kGroup, clusters),
                               StoreLowGradient{arguments},
                               static_cast<char*>(gradient.buffers.workspace), clusters);
}

}  // namespace plimsoll::ops
