// The codes of a norm's result y, and the same transposed (ops/norms/quantize_norm.h).
//
// A thread block has 32 rows, whose codes are 32 bytes, a sector, of each transposed row. First
// each of its warps computes the statistics of one row at a time, and writes the sum. It adds a
// row's elements in the order of the norm's own kernel (ops/cuda/norm_forward.cuh): if that has a
// block for a row, each lane has the elements of one thread of each of the block's warps. Then the
// block reads its rows again, from the L2 cache, and computes codes of y in tiles of 512 columns
// (ops/cuda/quantize_tiles.cuh): y is computed and rounded to its type as in the norm's kernel.
//
// ops/cuda/expected_codes.cuh describes the first step, in which no magnitude is expected.
//
// Bytes for N elements of 16 bits and both copies of their codes: 4·N, and 4·N more for an addend
// and the sum; another 2·N if the L2 cache has lost rows. In the first step, operands are read
// once more.
#include <cstdint>
#include <cstring>
#include <string>

#include "base/float8.h"
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/expected_codes.cuh"
#include "ops/cuda/largest.cuh"
#include "ops/cuda/norm_forward.cuh"
#include "ops/cuda/quantize_tiles.cuh"
#include "ops/cuda_kernel.h"
#include "ops/linear/quantize_workspace.h"
#include "ops/norms/quantize_norm.h"
#include "ops/norms/unit_offset.h"

namespace plimsoll::ops {
namespace {

using namespace cast_tiles;

constexpr int kRows = 32, kColumns = 512;      // numbers of rows and columns of a tile
constexpr int kTileAcross = kColumns / kSide;  // threads along a row
static_assert(kTileAcross * (kRows / kSide) == kThreads);

// How the norm's own kernel divides rows. A pack has kSize elements; kRowWarps warps share a row.
template <typename T, bool kMean, bool kAdd, int kSize, int kRowWarps>
struct Form {
  static constexpr bool kHasMean = kMean, kAdds = kAdd;
  static constexpr int kPack = kSize, kWarpsOfRow = kRowWarps;
  static constexpr int kAtOnce = kNormPacks;  // packs that a lane loads at once
  // Whether a row stays in registers: a row of one warp has at most kAtOnce packs per lane.
  static constexpr bool kStays = kRowWarps == 1;
  // Whether tiles, too, process 8 elements at once.
  static constexpr bool kEven = kSize == kSide;
  static_assert(kRowWarps == 1 || kRowWarps == kAtOnce);
  static_assert(kRowWarps == 1 || kRowWarps * kWarp == kNormBlock);
};

template <typename T>
struct Operands : NormForward<T> {
  const T* weight;
};

struct Statistics {
  float mean, rstd;
};

// The added tensor is read once, so it leaves the L2 cache to the sum, which is read again.
template <int N, typename T>
__device__ Pack<T, N> LoadTerm(const T* from) {
  Pack<T, N> pack;
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    const uint4 words = __ldcs(reinterpret_cast<const uint4*>(from));
    memcpy(&pack, &words, sizeof(pack));
  } else {
    pack = *reinterpret_cast<const Pack<T, N>*>(from);
  }
  return pack;
}

// Pack `i` of a row of x, which is a or the sum.
template <typename Form, typename T>
__device__ Pack<T, Form::kPack> MakeX(const Operands<T>& p, int64_t start, int i) {
  constexpr int kSize = Form::kPack;
  const int64_t at = start + int64_t{i} * kSize;
  if constexpr (!Form::kAdds) {
    return *reinterpret_cast<const Pack<T, kSize>*>(p.a + at);
  } else {
    float sum[kSize], more[kSize];
    ToFloats(LoadTerm<kSize>(p.a + at), sum);
    ToFloats(LoadTerm<kSize>(p.b + at), more);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sum[j] = __fadd_rn(sum[j], more[j]);
    return RoundPack<T, kSize>(sum);
  }
}

// Loads the packs of a lane from `first` on. kStored: the sum is already in memory.
template <typename Form, bool kStored, typename T>
__device__ void LoadPacks(const Operands<T>& p, int64_t start, int packs, int first,
                          Pack<T, Form::kPack> (&x)[Form::kAtOnce]) {
#pragma unroll
  for (int k = 0; k < Form::kAtOnce; ++k) {
    const int i = first + k * kWarp;
    if (i >= packs) continue;
    if constexpr (kStored && Form::kAdds) {
      x[k] = reinterpret_cast<const Pack<T, Form::kPack>*>(p.sum + start)[i];
    } else {
      x[k] = MakeX<Form>(p, start, i);
    }
  }
}

// Doesn't use WriteGlobal(), since the thread itself may load the sum again.
template <typename Form, typename T>
__device__ void StoreSum(const Operands<T>& p, int64_t start, int packs, int first,
                         Pack<T, Form::kPack> (&x)[Form::kAtOnce]) {
#pragma unroll
  for (int k = 0; k < Form::kAtOnce; ++k) {
    const int i = first + k * kWarp;
    if (i >= packs) continue;
    if constexpr (sizeof(x[k]) == 16) KeepPacked(x[k]);  // one access of 16 bytes
    reinterpret_cast<Pack<T, Form::kPack>*>(p.sum + start)[i] = x[k];
  }
}

// The sum over a row, like RowSum() of the norm's kernel, from the lane's part for each of that
// kernel's warps. All lanes get the sum.
template <int kRowWarps>
__device__ float TotalOf(const float (&shares)[kRowWarps]) {
  if constexpr (kRowWarps == 1) {
    return WarpSum(shares[0]);
  } else {
    const int lane = threadIdx.x % kWarp;
    float mine = 0;
#pragma unroll
    for (int i = 0; i < kRowWarps; ++i) {
      const float sum = WarpSum(shares[i]);
      if (lane == i) mine = sum;
    }
    return WarpSum(mine);
  }
}

// The statistics of a warp's row. kStore: also writes the sum, if there is one.
template <typename Form, bool kStore, typename T>
__device__ Statistics StatisticsOf(const Operands<T>& p, int64_t row) {
  constexpr int kSize = Form::kPack, kAtOnce = Form::kAtOnce, kRowWarps = Form::kWarpsOfRow;
  const int lane = threadIdx.x % kWarp, packs = p.width / kSize;
  const int64_t start = row * p.width;
  const float share = 1.0f / static_cast<float>(p.width);
  Pack<T, kSize> x[kAtOnce];
  float values[kSize];
  Statistics found{};
  if constexpr (Form::kHasMean) {
    float sums[kRowWarps] = {};
    int first = lane;
    do {
      LoadPacks<Form, false>(p, start, packs, first, x);
      if constexpr (kStore && Form::kAdds) StoreSum<Form>(p, start, packs, first, x);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (first + k * kWarp >= packs) continue;
        ToFloats(x[k], values);
        AddElements(values, sums[k % kRowWarps]);
      }
      first += kAtOnce * kWarp;
    } while (!Form::kStays && first - lane < packs);
    found.mean = MeanOfSum(TotalOf(sums), share);
  }
  float squares[kRowWarps] = {};
  int first = lane;
  do {
    if constexpr (!Form::kHasMean) {
      LoadPacks<Form, false>(p, start, packs, first, x);
      if constexpr (kStore && Form::kAdds) StoreSum<Form>(p, start, packs, first, x);
    } else if constexpr (!Form::kStays) {
      LoadPacks<Form, kStore>(p, start, packs, first, x);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * kWarp >= packs) continue;
      if constexpr (sizeof(x[k]) == 16) KeepPacked(x[k]);
      ToFloats(x[k], values);
      AddSquares<Form::kHasMean>(values, found.mean, squares[k % kRowWarps]);
    }
    first += kAtOnce * kWarp;
  } while (!Form::kStays && first - lane < packs);
  found.rstd = RstdOfSquares(TotalOf(squares), share, p.eps);
  return found;
}

// Used if no magnitude is expected: raises *largest to y's largest magnitude. Warps take rows,
// grid-stride. Doesn't write the sum, which may have the memory of the added tensor.
template <typename Form, typename T>
__global__ void __launch_bounds__(kThreads)
    FirstNormKernel(const Operands<T> p, const uint32_t* expected, uint32_t* largest) {
  if (*expected != 0) return;
  constexpr int kSize = Form::kPack;
  __shared__ uint32_t shared[kWarps];
  const int lane = threadIdx.x % kWarp, packs = p.width / kSize;
  uint32_t here = 0;
  for (int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp; row < p.rows;
       row += int64_t{gridDim.x} * kWarps) {
    const Statistics of = StatisticsOf<Form, false>(p, row);
    for (int i = lane; i < packs; i += kWarp) {
      float x[kSize], weight[kSize], y[kSize] = {};
      ToFloats(MakeX<Form>(p, row * p.width, i), x);
      LoadPack<kSize>(p.weight + i * kSize, weight);
      ToNormWeights(weight, p.offset);
      if (p.bias != nullptr) LoadPack<kSize>(p.bias + i * kSize, y);
#pragma unroll
      for (int j = 0; j < kSize; ++j) y[j] = NormResult(x[j], of.mean, of.rstd, weight[j], y[j]);
      here = WithMagnitudes(here, RoundPack<T, kSize>(y));
    }
  }
  AddLargest<kThreads>(here, shared, largest);
}

template <typename Form, typename T>
__global__ void __launch_bounds__(kThreads, 2)
    QuantizeNormKernel(const Operands<T> p, const Cast cast) {
  constexpr bool kEven = Form::kEven;
  // Two tiles: while some threads still store columns of one tile, others fill the next.
  __shared__ TransposedTile<kRows, kColumns> tiles[2];
  __shared__ Statistics statistics[kRows];
  __shared__ uint32_t shared_largest[kWarps];
  const int64_t first_row = int64_t{FromTheEnd()} * kRows;
  for (int i = threadIdx.x / kWarp; i < kRows && first_row + i < p.rows; i += kWarps) {
    const int64_t row = first_row + i;
    const Statistics found = StatisticsOf<Form, true>(p, row);
    if (threadIdx.x % kWarp != 0) continue;
    statistics[i] = found;
    if (p.mean != nullptr) p.mean[row] = found.mean;
    if (p.rstd != nullptr) p.rstd[row] = found.rstd;
  }
  __syncthreads();

  const T* const x = Form::kAdds ? p.sum : p.a;
  const float to_code = ReadScale<Float8E4M3>(cast).to_code;
  const int across = threadIdx.x % kTileAcross, unit = threadIdx.x / kTileAcross;
  const int64_t row = first_row + unit * kSide;
  uint32_t largest = 0;
  for (int first = 0; first < p.width; first += kColumns) {
    const int column = first + across * kSide, left = p.width - column;  // may be negative
    Eight<T> loaded[kSide];
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const int count = row + i < p.rows ? left : 0;
      loaded[i] = LoadSome<kEven>(x + (row + i) * p.width + column, count);
    }
    float weight[kSide], bias[kSide] = {};
    ToFloats(LoadSome<kEven>(p.weight + column, left), weight);
    ToNormWeights(weight, p.offset);
    if (p.bias != nullptr) ToFloats(LoadSome<kEven>(p.bias + column, left), bias);
    uint2 codes[kSide];
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const int count = row + i < p.rows ? left : 0;
      const Statistics of = statistics[unit * kSide + i];
      float y[kSide];
      ToFloats(loaded[i], y);
#pragma unroll
      for (int j = 0; j < kSide; ++j) {
        const float result = NormResult(y[j], of.mean, of.rstd, weight[j], bias[j]);
        y[j] = (kEven ? 0 : j) < count ? result : 0;
      }
      const Eight<T> made = RoundPack<T, kSide>(y);
      largest = WithMagnitudes(largest, made);
      ToFloats(made, y);
      codes[i] = EightCodes<Float8E4M3>(y, to_code);
      if (cast.codes != nullptr) {
        StoreSome<kEven>(cast.codes + (row + i) * p.width + column, codes[i], count);
      }
    }
    if (cast.transposed != nullptr) {
      auto& tile = tiles[first / kColumns % 2];
      PutTransposed(tile, codes, across, unit);
      __syncthreads();
      StoreTransposed(tile, cast, {0, p.width}, first_row, first);
    }
  }
  AddLargest<kThreads>(largest, shared_largest, cast.found);
}

template <typename Form, typename T>
void LaunchForm(const CudaContext& ctx, const Operands<T>& p, const Cast& cast) {
  if (cast.codes != nullptr || cast.transposed != nullptr) {
    const int64_t blocks = (p.rows + kWarps - 1) / kWarps;
    FirstNormKernel<Form><<<FirstBlocks(ctx, blocks), kThreads, 0, ctx.stream>>>(p, cast.expected,
                                                                                 FirstLargest(ctx));
    gpu::CheckLaunch("quantize_norm");
  }
  QuantizeNormKernel<Form>
      <<<static_cast<unsigned>((p.rows + kRows - 1) / kRows), kThreads, 0, ctx.stream>>>(p, cast);
  gpu::CheckLaunch("quantize_norm");
}

template <bool kMean, bool kAdd, typename T>
void Launch(const CudaContext& ctx, const Operands<T>& p, const Cast& cast) {
  constexpr int kSize = kPackSize<T>, kBlockWarps = kNormBlock / kWarp;
  const auto launch = [&]<int kSizeOf, int kRowWarps>() {
    LaunchForm<Form<T, kMean, kAdd, kSizeOf, kRowWarps>>(ctx, p, cast);
  };
  if (!TakesNormPacks<T>(p, p.weight)) {
    launch.template operator()<1, kBlockWarps>();
  } else if (p.width / kSize <= kNormPacks * kWarp) {
    launch.template operator()<kSize, 1>();
  } else {
    launch.template operator()<kSize, kBlockWarps>();
  }
}

template <typename T>
void Run(const CudaContext& ctx, const Operands<T>& p) {
  using namespace quantize_norm;
  const Cast cast = ExpectedCast(ctx, ctx.in_shape(kX), kExpected);
  if (p.rows > 0) {
    const std::string& of = ctx.attributes.GetWord("of");
    const auto launch = [&]<bool kMean>() {
      NormAdds(of) ? Launch<kMean, true>(ctx, p, cast) : Launch<kMean, false>(ctx, p, cast);
    };
    NormHasMean(of) ? launch.template operator()<true>() : launch.template operator()<false>();
  }
  FinishCast<Float8E4M3>(ctx, cast, kLargest);
}

template <typename T>
void QuantizeNormOf(const CudaContext& ctx) {
  using namespace quantize_norm;
  Operands<T> p{};
  p.a = ctx.in<T>(kX);
  p.b = ctx.in<T>(kAddend);
  p.weight = ctx.in<T>(kWeight);
  p.bias = ctx.in<T>(kBias);
  p.mean = ctx.out<float>(kMean);
  p.rstd = ctx.out<float>(kRstd);
  p.rows = ctx.in_shape(kX).rows();
  p.width = static_cast<int>(ctx.in_shape(kX).dim(-1));
  p.eps = static_cast<float>(ctx.attributes.GetReal("eps"));
  p.offset = NormOffset(HasUnitOffset(ctx.attributes));
  if (ctx.has_input(kAddend)) {
    char* const after = static_cast<char*>(ctx.workspace) + kLargestWordsBytes;
    p.sum = ctx.has_output(kSum) ? ctx.out<T>(kSum) : reinterpret_cast<T*>(after);
  }
  Run(ctx, p);
}

void QuantizeNorm(const CudaContext& ctx) {
  ctx.dtype() == graph::DType::kBFloat16 ? QuantizeNormOf<__nv_bfloat16>(ctx)
                                         : QuantizeNormOf<__half>(ctx);
}

const CudaKernelRegistration kQuantizeNorm({"quantize_norm", &QuantizeNorm});

}  // namespace
}  // namespace plimsoll::ops
