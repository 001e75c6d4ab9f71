// Forms (gemm_forms.h) for products with 16-bit results on Hopper: y = x · weightᵀ + bias, and dx =
// dy · weight.
#include <cuda.h>

#include "gpu/check.h"
#include "ops/cuda/products/gemm_forms.h"
#include "ops/cuda/products/hopper_gemm.cuh"

namespace plimsoll::ops {

// The epilogue (hopper_gemm.cuh): adds a bias, if present, rounds to T and stores, 64 columns at a
// time, while the next tile is multiplied. The columns go through shared memory, from where the
// copy engine stores them; kBuffers pieces of a warpgroup are in flight.
template <typename T, int kBuffers = 2>
struct StoreRounded {
  static constexpr int kSharedBytes = kBuffers * kOperandTile;

  CUtensorMap to;  // for boxes of 64 rows
  const T* bias;   // [columns] or nullptr

  template <int kCount>
  struct Ahead {
    uint32_t bias[kCount / 4];  // biases, those of two columns in each word
  };
  template <int kCount>
  struct Held {
    uint32_t pairs[kCount / 2];
    int row, rows, column, warpgroup;
  };
  template <int kCount>
  static constexpr int kPieces = kCount / 32;

  template <int kCount>
  __device__ void Load(Ahead<kCount>& ahead, const HopperTile& tile) const {
    if (bias == nullptr) return;
    const int first = tile.column + ResultPlace().column;
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const int column = first + i * 8;  // of an even number of columns
      ahead.bias[i] = column < tile.columns ? *reinterpret_cast<const uint32_t*>(bias + column) : 0;
    }
  }

  template <int kCount>
  __device__ void Hold(float (&sums)[kCount], const Ahead<kCount>& ahead, const HopperTile& tile,
                       Held<kCount>& held) const {
    // Buffers alternate from one tile to the next: with an odd number of pieces and two buffers,
    // the first piece of a tile would overwrite the last piece of the tile before.
    static_assert(kCount % 32 == 0 && kPieces<kCount> % kBuffers == 0);
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      float2 two = {sums[i], sums[i + 1]};
      if (bias != nullptr) {
        two.x += Low<T>(ahead.bias[i / 4]);
        two.y += High<T>(ahead.bias[i / 4]);
      }
      held.pairs[i / 2] = PackTwo<T>(two.x, two.y);
    }
    held.row = tile.row;
    held.rows = tile.rows;
    held.column = tile.column;
    held.warpgroup = tile.warpgroup;
  }

  template <int kCount>
  __device__ void Store(const Held<kCount>& held, int piece, char* shared) const {
    if (held.row >= held.rows) return;  // no row of it is part of the result
    const int thread = threadIdx.x % kWarpgroup, lane = thread % 32;
    const int row = thread / 32 * 16 + lane % 16;  // index of the row that this lane addresses
    const uint32_t buffer = SharedAddress(shared) + piece % kBuffers * kOperandTile;
    if (thread == 0) AwaitStoredBoxes<kBuffers - 1>();
    WarpgroupBarrier(held.warpgroup);
#pragma unroll
    for (int p = 0; p < kCount / 32; ++p) {
      if (p != piece) continue;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int first = p * 16 + k * 4;
        const uint32_t values[4] = {held.pairs[first], held.pairs[first + 1], held.pairs[first + 2],
                                    held.pairs[first + 3]};
        StoreMatrices(buffer + PieceOffset(row, k * 2 + lane / 16), values);
      }
    }
    FenceSharedWrites();
    WarpgroupBarrier(held.warpgroup);
    if (thread == 0) StoreBox(&to, held.row, held.column + piece * 64, buffer);
  }
};

namespace {

MappedMatrix A(const GemmProblem& p, const GemmBuffers& buffers) {
  return {buffers.a, p.type_a, p.m, p.k, p.lda};
}
template <Contiguous kB>
MappedMatrix B(const GemmProblem& p, const GemmBuffers& buffers) {
  if (kB == Contiguous::kInner) return {buffers.b, p.type_b, p.n, p.k, p.ldb};
  return {buffers.b, p.type_b, p.k, p.n, p.ldb};
}
MappedMatrix D(const GemmProblem& p, const GemmBuffers& buffers) {
  return {buffers.d, p.result, p.m, p.n, p.ldc};
}

template <Contiguous kB>
bool Takes(const GemmProblem& p, const GemmBuffers& buffers, int) {
  const bool biased = p.epilogue == GemmEpilogue::kBias;
  return !p.trans_a && p.trans_b == (kB == Contiguous::kInner) && p.type_a == p.type_b &&
         p.result == p.type_a && p.batch == 1 && p.alpha == 1 && p.beta == 0 && p.n % 2 == 0 &&
         (p.epilogue == GemmEpilogue::kNone || biased) &&
         (!biased || reinterpret_cast<uintptr_t>(buffers.bias) % 4 == 0) && CanMap(A(p, buffers)) &&
         CanMap(B<kB>(p, buffers)) && CanMap(D(p, buffers));
}

// kGroup: see WholeTiles.
template <int kColumns, Contiguous kB, Warpgroups kGroups, int kGroup>
void Run(cudaStream_t stream, const GemmProblem& p, const GemmBuffers& buffers,
         int multiprocessors) {
  const auto run = [&]<typename T>() {
    using Tiling = HopperTiling<T, kColumns, Contiguous::kInner, kB, kGroups>;
    const StoreRounded<T> epilogue{
        MapMatrix(D(p, buffers), 64),
        p.epilogue == GemmEpilogue::kBias ? static_cast<const T*>(buffers.bias) : nullptr};
    const HopperProblem problem{A(p, buffers), B<kB>(p, buffers), p.m, p.n, p.k};
    LaunchHopperGemm<Tiling>(stream, problem, MakeWholeTiles<Tiling>(problem, kGroup), epilogue,
                             multiprocessors);
  };
  if (p.type_a == graph::DType::kBFloat16) {
    run.template operator()<__nv_bfloat16>();
  } else {
    run.template operator()<__half>();
  }
}

template <int kColumns, Contiguous kB, Warpgroups kGroups, int kGroup>
constexpr GemmForm Form(const char* name) {
  return {name, &Takes<kB>, &Run<kColumns, kB, kGroups, kGroup>};
}

constexpr auto kInner = Contiguous::kInner, kOuter = Contiguous::kOuter;
constexpr auto kTogether = Warpgroups::kTogether;

constexpr GemmForm kForms[] = {
    Form<256, kInner, kTogether, 8>("128 x 256"),
    Form<256, kOuter, kTogether, 8>("128 x 256, rows of B"),
};

}  // namespace

std::span<const GemmForm> RoundedForms() { return kForms; }

}  // namespace plimsoll::ops
