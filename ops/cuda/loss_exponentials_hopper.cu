// The kernels of ops/cuda/loss_exponentials.h, in their order:
//
//   references   c, a warp for each row
//   product      exponentials and their sums over tiles of 64 × 256, in the product's epilogue:
//                one warpgroup computes exponentials while the other multiplies
//   finish       s, loss, e[target] and scaled rows of x, 8 rows for a block; with a sharded
//                vocabulary three kernels, between which the ranks combine: totals, rare rows,
//                finish
//
// Bytes in addition to the product's operands: exponentials are written once, instead of logits; in
// fp16 the weight is read and its copy written once per call.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/exp2.cuh"
#include "ops/cuda/loss_exponentials.h"
#include "ops/cuda/products/hopper_gemm.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/loss/linear_cross_entropy.h"

namespace plimsoll::ops {
namespace {

using Exponential = __nv_bfloat16;

constexpr float kTargetExponential = 0x1p-32f;  // e[target]

constexpr int kRows = 8;  // number of rows of a block
constexpr int kThreads = kRows * kWarp;

// Calls body.template operator()<T>() with the type of x and weight.
template <typename Body>
void DispatchStored(const LossExponentials& a, Body&& body) {
  if (a.stored == graph::DType::kBFloat16) {
    body.template operator()<__nv_bfloat16>();
  } else {
    body.template operator()<__half>();
  }
}

template <typename T>
__device__ const T* RowOfX(const LossExponentials& a, int64_t row) {
  return static_cast<const T*>(a.x) + row * a.width;
}

template <typename T>
__device__ const T* RowOfWeight(const LossExponentials& a, int64_t v) {
  return static_cast<const T*>(a.weight) + v * a.width;
}

// Whether the row's target counts.
__device__ bool Counts(const LossExponentials& a, int32_t target) {
  return target >= 0 && target < a.whole;
}

// The row of weight for the target with which a row is computed; out of range if another rank has
// it.
__device__ int64_t TargetOf(const LossExponentials& a, int64_t row) {
  const int32_t target = a.targets[row];
  return (Counts(a, target) ? target : 0) - a.first;
}

__device__ bool IsHere(const LossExponentials& a, int64_t target) {
  return target >= 0 && target < a.vocabulary;
}

// Σ a·b over a row; all lanes of the warp get it.
template <typename T>
__device__ float RowProduct(const T* a, const T* b, int64_t width) {
  float sum = 0;
  for (int64_t at = threadIdx.x % kWarp * 8; at < width; at += kWarp * 8) {
    float x[8], y[8];
    LoadPack(a + at, x);
    LoadPack(b + at, y);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(x[i], y[i], sum);
  }
  return WarpSum(sum);
}

template <typename T>
__global__ __launch_bounds__(kThreads) void ReferencesKernel(const LossExponentials a) {
  const int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp;
  if (row >= a.count) return;
  const int64_t target = TargetOf(a, row);
  float c = 0;
  if (IsHere(a, target)) {
    c = RowProduct(RowOfX<T>(a, row), RowOfWeight<T>(a, target), a.width);
  }
  if (threadIdx.x % kWarp == 0) a.references[row] = c;
}

// The product's epilogue: logits become exponentials, which are summed and, with kStore, stored, 64
// columns at a time: through shared memory, from where the copy engine takes them.
template <bool kStore>
struct Exponentials {
  static constexpr int kSharedBytes = kStore ? kOperandTile : 0;

  CUtensorMap to;  // for boxes of 64 rows
  const float* references;
  float* sums;

  // Operations that the compiler might fuse in only one of the two forms are written as intrinsics.
  template <int kCount>
  __device__ void operator()(float (&l)[kCount], const HopperTile& tile, char* shared) const {
    static_assert(kCount * 2 == kLossTileColumns);
    const ResultPlace at;
    const int row = tile.row + at.row;
    float c[2], sum[2][2] = {};  // values and sums of two rows, 8 apart
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const bool there = row + i * 8 < tile.rows;
      c[i] = __fmaf_rn(there ? references[row + i * 8] : 0.0f, -kLog2E, -32.0f);
    }
    if (tile.column + kCount * 2 > tile.columns) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (tile.column + at.Column(i) >= tile.columns) l[i] = -INFINITY;
      }
    }
#pragma unroll
    for (int piece = 0; piece < kCount / 32; ++piece) {
      uint32_t pairs[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        float e[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          e[k] = Exp2(__fmaf_rn(l[piece * 32 + i * 2 + k], kLog2E, c[i % 2]));
          sum[i % 2][k] = __fadd_rn(sum[i % 2][k], e[k]);
        }
        pairs[i] = PackTwo<Exponential>(e[0], e[1]);
      }
      if constexpr (kStore) StorePiece(pairs, tile, piece, SharedAddress(shared));
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float total = __fadd_rn(sum[i][0], sum[i][1]);
      total = __fadd_rn(total, __shfl_xor_sync(~0u, total, 1));
      total = __fadd_rn(total, __shfl_xor_sync(~0u, total, 2));
      if (threadIdx.x % 4 == 0 && row + i * 8 < tile.rows) {
        sums[int64_t{tile.tile_column} * tile.rows + row + i * 8] = total;
      }
    }
  }

  __device__ void StorePiece(const uint32_t (&pairs)[16], const HopperTile& tile, int piece,
                             uint32_t shared) const {
    const int thread = threadIdx.x % kWarpgroup, lane = thread % kWarp;
    const int row = thread / kWarp * 16 + lane % 16;  // index of the row that this lane addresses
    if (thread == 0) AwaitStoredBoxes<0>();
    tile.Barrier();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint32_t values[4] = {pairs[k * 4], pairs[k * 4 + 1], pairs[k * 4 + 2],
                                  pairs[k * 4 + 3]};
      StoreMatrices(shared + PieceOffset(row, k * 2 + lane / 16), values);
    }
    FenceSharedWrites();
    tile.Barrier();
    if (thread == 0 && tile.row < tile.rows) {
      StoreBox(&to, tile.row, tile.column + piece * 64, shared);
    }
  }
};

// The complete block handles a row whose exponentials are out of range: finds the row's largest
// logit …
template <typename T>
__device__ __noinline__ float LargestLogit(const LossExponentials& a, int64_t row, float* shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const T* const x = RowOfX<T>(a, row);
  float largest = -INFINITY;
  for (int64_t v = warp; v < a.vocabulary; v += kRows) {
    largest = fmaxf(largest, RowProduct(x, RowOfWeight<T>(a, v), a.width));
  }
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared[warp] = largest;
  __syncthreads();
  for (int i = 0; i < kRows; ++i) largest = fmaxf(largest, shared[i]);
  __syncthreads();
  return largest;
}

// Computes the exponentials of a row relative to its largest logit, and returns their sum.
template <typename T>
__device__ __noinline__ float ExponentialsRelativeTo(float largest, const LossExponentials& a,
                                                     int64_t row, float* shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const T* const x = RowOfX<T>(a, row);
  float sum = 0;
  for (int64_t v = warp; v < a.vocabulary; v += kRows) {
    const float logit = RowProduct(x, RowOfWeight<T>(a, v), a.width);
    const float e = exp2f((logit - largest) * kLog2E);
    if (threadIdx.x % kWarp != 0) continue;
    sum += e;
    if (a.dloss != nullptr) a.exponentials[row * a.stride + v] = __float2bfloat16_rn(e);
  }
  return BlockSum<kThreads>(sum, shared);
}

// Sums the exponentials of the block's rows over the tiles. The partial sums of a row are partial[0
// … 7][row].
__device__ void SumTiles(const LossExponentials& a, int tiles, float (&partial)[kRows][kRows]) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  // Neighbouring threads read the sums of the block's rows over one tile.
  const int64_t row = int64_t{blockIdx.x} * kRows + thread % kRows;
  float sum = 0;
  if (row < a.count) {
    for (int tile = thread / kRows; tile < tiles; tile += kThreads / kRows) {
      sum += a.sums[tile * a.count + row];
    }
  }
  for (int lanes = kRows; lanes < kWarp; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  if (lane < kRows) partial[thread / kWarp][lane] = sum;
  __syncthreads();
}

// The sum of exponentials of row i of the block.
__device__ float SumOfRow(const float (&partial)[kRows][kRows], int i) {
  float sum = 0;
  for (int part = 0; part < kRows; ++part) sum += partial[part][i];
  return sum;
}

struct RowResult {
  float s, loss, of_target;  // of_target: the exponential of the target

  static __device__ RowResult InRange(float sum) {
    // The sum includes the target's exponential; only rounding can make it smaller than that.
    const float s = sum < kTargetExponential ? kTargetExponential : sum;
    return {s, logf(s * (1 / kTargetExponential)), kTargetExponential};
  }
  static __device__ RowResult OutOfRange(float sum, float largest, float reference) {
    return {sum, logf(sum) + (largest - reference), exp2f((reference - largest) * kLog2E)};
  }
};

// Run by a warp: computes all results of a row that depend on s. kByRow: the gradients of a row's
// loss are scaled by −dlogp of the row.
template <typename T, bool kByRow>
__device__ void FinishRow(const LossExponentials& a, int64_t row, const RowResult& result) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int32_t target = a.targets[row];
  const bool counts = Counts(a, target);
  if (lane == 0) {
    if (a.lse != nullptr) a.lse[row] = a.references[row] + result.loss;
    // A target outside the vocabulary gives a loss of NaN.
    if (a.losses != nullptr) a.losses[row] = counts ? result.loss : target < 0 ? 0.0f : NAN;
  }
  if (a.dloss == nullptr) return;
  float factor = 0;
  if (counts) factor = (kByRow ? -a.dloss[row] : *a.scale * *a.dloss) / result.s;
  if (lane == 0) {
    a.factors[row] = factor;
    const int64_t own = TargetOf(a, row);
    if (counts && IsHere(a, own)) {
      a.exponentials[row * a.stride + own] = __float2bfloat16_rn(result.of_target - result.s);
    }
  }
  for (int64_t at = lane * 8; at < a.width; at += kWarp * 8) {
    float x[8];
    LoadPack(RowOfX<T>(a, row) + at, x);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] *= factor;
    StorePack(a.scaled + row * a.width + at, x);
  }
}

template <typename T, bool kByRow>
__global__ __launch_bounds__(kThreads) void FinishKernel(const LossExponentials a, int tiles) {
  __shared__ float partial[kRows][kRows];  // partial sums of each warp for each row
  __shared__ float shared[kRows];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t first = int64_t{blockIdx.x} * kRows;
  SumTiles(a, tiles, partial);
  RowResult result{};  // for this warp's row
  for (int i = 0; i < kRows && first + i < a.count; ++i) {
    float sum = SumOfRow(partial, i), largest = 0;
    const bool rare = sum > a.most_sum;  // equal for all threads
    if (rare) {
      largest = LargestLogit<T>(a, first + i, shared);
      sum = ExponentialsRelativeTo<T>(largest, a, first + i, shared);
    }
    if (warp != i) continue;
    result = rare ? RowResult::OutOfRange(sum, largest, a.references[first + i])
                  : RowResult::InRange(sum);
  }
  if (first + warp < a.count) FinishRow<T, kByRow>(a, first + warp, result);
}

// For a sharded vocabulary: sums this rank's exponentials, and finds the rows that are out of range
// on this rank.
template <typename T>
__global__ __launch_bounds__(kThreads) void TotalsKernel(const LossExponentials a, int tiles) {
  __shared__ float partial[kRows][kRows];
  __shared__ float shared[kRows];
  const int64_t first = int64_t{blockIdx.x} * kRows;
  SumTiles(a, tiles, partial);
  for (int i = 0; i < kRows && first + i < a.count; ++i) {
    const float sum = SumOfRow(partial, i);
    float largest = -INFINITY;
    if (sum > a.most_sum) largest = LargestLogit<T>(a, first + i, shared);
    if (threadIdx.x != 0) continue;
    a.totals[first + i] = sum;
    a.largest[first + i] = largest;
  }
}

// Computes the rows again that are out of range on any rank.
template <typename T>
__global__ __launch_bounds__(kThreads) void RareRowsKernel(const LossExponentials a) {
  __shared__ float shared[kRows];
  const int64_t first = int64_t{blockIdx.x} * kRows;
  for (int i = 0; i < kRows && first + i < a.count; ++i) {
    const float largest = a.largest[first + i];
    if (largest == -INFINITY) continue;
    const float sum = ExponentialsRelativeTo<T>(largest, a, first + i, shared);
    if (threadIdx.x == 0) a.totals[first + i] = sum;
    __syncthreads();  // before `shared` is reused
  }
}

template <typename T, bool kByRow>
__global__ __launch_bounds__(kThreads) void FinishSplitKernel(const LossExponentials a) {
  const int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp;
  if (row >= a.count) return;
  const float sum = a.totals[row], largest = a.largest[row];
  FinishRow<T, kByRow>(a, row,
                       largest == -INFINITY
                           ? RowResult::InRange(sum)
                           : RowResult::OutOfRange(sum, largest, a.references[row]));
}

template <typename T>
__global__ __launch_bounds__(kThreads) void ScaleRowsKernel(const float* product,
                                                            const float* factors, int64_t count,
                                                            int64_t width, T* dx) {
  const int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp;
  if (row >= count) return;
  const float factor = factors[row];
  for (int64_t at = threadIdx.x % kWarp * 8; at < width; at += kWarp * 8) {
    float x[8];
    LoadPack<4>(product + row * width + at, reinterpret_cast<float(&)[4]>(x));
    LoadPack<4>(product + row * width + at + 4, reinterpret_cast<float(&)[4]>(x[4]));
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] *= factor;
    StorePack(dx + row * width + at, x);
  }
}

template <typename T>
using Tiling = HopperTiling<T, kLossTileColumns, Contiguous::kInner, Contiguous::kInner>;

MappedMatrix MatrixOfX(const LossExponentials& a) {
  return {a.x, a.stored, a.count, a.width, a.width};
}

MappedMatrix MatrixOfWeight(const LossExponentials& a) {
  return {a.weight, a.stored, a.vocabulary, a.width, a.width};
}

template <typename T, bool kStore>
void Multiply(const LossExponentials& a, int multiprocessors, cudaStream_t stream) {
  HopperProblem problem;
  problem.a = MatrixOfX(a);
  problem.b = MatrixOfWeight(a);
  problem.m = a.count;
  problem.n = a.vocabulary;
  problem.k = a.width;
  Exponentials<kStore> epilogue{};
  if constexpr (kStore) {
    epilogue.to =
        MapMatrix({a.exponentials, graph::DType::kBFloat16, a.count, a.vocabulary, a.stride}, 64);
  }
  epilogue.references = a.references;
  epilogue.sums = a.sums;
  constexpr int kGroup = 16;  // rows of clusters whose tiles are computed at the same time
  LaunchHopperGemm<Tiling<T>>(stream, problem, MakeWholeTiles<Tiling<T>>(problem, kGroup), epilogue,
                              multiprocessors);
}

unsigned Blocks(const LossExponentials& a) {
  return static_cast<unsigned>((a.count + kRows - 1) / kRows);
}

struct Same {
  __device__ float operator()(float x) const { return x; }
};

}  // namespace

bool CanUseLossExponentials(const LossExponentials& a) {
  return CanMap(MatrixOfX(a)) && CanMap(MatrixOfWeight(a));
}

void ComputeLossExponentials(const LossExponentials& a, bool by_row, const VocabularyShard& shard,
                             int multiprocessors, cudaStream_t stream) {
  const unsigned blocks = Blocks(a);
  const int tiles = static_cast<int>((a.vocabulary + kLossTileColumns - 1) / kLossTileColumns);
  const auto combine = [&](float* of_rows, Reduction reduction) {
    if (shard.ranks == nullptr) return;
    shard.ranks->AllReduce(of_rows, of_rows, a.count, graph::DType::kFloat32, reduction, stream);
  };
  DispatchStored(a, [&]<typename T>() {
    ReferencesKernel<T><<<blocks, kThreads, 0, stream>>>(a);
    gpu::CheckLaunch("loss references");
    combine(a.references, Reduction::kSum);
    if (a.dloss != nullptr) {
      Multiply<T, true>(a, multiprocessors, stream);
    } else {
      Multiply<T, false>(a, multiprocessors, stream);
    }
    if (!shard.split) {
      const auto finish = by_row ? &FinishKernel<T, true> : &FinishKernel<T, false>;
      finish<<<blocks, kThreads, 0, stream>>>(a, tiles);
      gpu::CheckLaunch("loss of exponentials");
      return;
    }
    TotalsKernel<T><<<blocks, kThreads, 0, stream>>>(a, tiles);
    gpu::CheckLaunch("totals of exponentials");
    combine(a.largest, Reduction::kMax);
    RareRowsKernel<T><<<blocks, kThreads, 0, stream>>>(a);
    gpu::CheckLaunch("rows out of range");
    combine(a.totals, Reduction::kSum);
    const auto finish = by_row ? &FinishSplitKernel<T, true> : &FinishSplitKernel<T, false>;
    finish<<<blocks, kThreads, 0, stream>>>(a);
    gpu::CheckLaunch("loss of exponentials");
  });
}

void ScaleLossRows(const LossExponentials& a, const float* product, void* dx, cudaStream_t stream) {
  DispatchStored(a, [&]<typename T>() {
    ScaleRowsKernel<<<Blocks(a), kThreads, 0, stream>>>(product, a.factors, a.count, a.width,
                                                        static_cast<T*>(dx));
    gpu::CheckLaunch("gradients of rows");
  });
}

void CopyLossWeight(const LossExponentials& a, __nv_bfloat16* copy, cudaStream_t stream) {
  Map(stream, "weight in bf16", a.vocabulary * a.width, Same(), copy,
      static_cast<const __half*>(a.weight));
}

}  // namespace plimsoll::ops
