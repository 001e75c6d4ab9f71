// codes = round(x · to_code), and the same transposed; sums of x's columns (ops/linear/quantize.h)
//
// One kernel reads x once and writes all results.
//
// Tiles of 128 × 128: a thread has 8 rows of 8 columns, 16 threads lie along a row. It stores codes
// as it has them, 8 bytes a row. For the transposed copy it transposes its bytes in registers and
// puts them into shared memory, 8 bytes of 8 rows for each column; then 8 threads write a column's
// 128 rows, in pieces of 16 bytes. Units of 8 bytes lie at (column, row unit ^ column / 8), so that
// neither the writes nor the reads of shared memory conflict. Column sums: 8 rows in a thread, then
// the block's, which are partial sums of a second launch (cuda/column_sums.h).
// Codes alone need no tiles: threads take 8 elements, several times.
//
// Bytes: x once, codes once each; the partial sums, 1/32 of x in bf16, are written and read.
#include "base/float8.h"
#include "gpu/check.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/float8_codes.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/linear/code_scale.h"
#include "ops/linear/quantize.h"
#include "ops/linear/quantize_workspace.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kTileRows = kQuantizeTileRows, kTileColumns = 128;
constexpr int kSide = 8;                       // a thread's rows and columns
constexpr int kAcross = kTileColumns / kSide;  // threads along a row
constexpr int kUnits = kTileRows / kSide;      // of 8 bytes, in a column of the tile
constexpr int kPieces = kTileRows / 16;        // of 16 bytes, in a column of the tile
static_assert(kAcross * kUnits == kThreads && kAcross == kUnits);

struct Cast {
  int64_t rows, columns, padded;  // padded: elements in a transposed row
  const uint32_t* largest;
  const uint32_t* expected;  // nullptr: `largest` it is
  // nullptr: not wanted
  uint8_t* codes;
  uint8_t* transposed;
  float* scale;
  float* partials;  // [tiles of rows, columns]
};

template <typename Code>
__device__ CodeScale ReadScale(const Cast& cast) {
  const uint32_t expected = cast.expected == nullptr ? 0 : *cast.expected;
  const CodeScale scale = ScaleOf(MagnitudeFor(*cast.largest, expected), Code::kLargest);
  if (cast.scale != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *cast.scale = scale.to_number;
  return scale;
}

// The block's part of x: the last first, which the L2 cache still holds after the kernel before.
__device__ unsigned FromTheEnd() { return gridDim.x - 1 - blockIdx.x; }

template <typename T>
using Eight = Pack<T, kSide>;

// From a multiple of 16 bytes on.
template <typename T>
__device__ Eight<T> LoadEight(const T* from) {
  Eight<T> eight;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(eight) / sizeof(uint4)); ++i) {
    reinterpret_cast<uint4*>(&eight)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  return eight;
}

// Elements beyond `count` are zeros. kEven: `from` is at a multiple of 16 bytes, and count is at
// most 0 or at least 8.
template <bool kEven, typename T>
__device__ Eight<T> LoadSome(const T* from, int64_t count) {
  Eight<T> eight;
  if constexpr (kEven) {
    if (count > 0) return LoadEight(from);
  }
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    eight.values[i] = FromFloat<T>(0);
    if (!kEven && i < count) eight.values[i] = from[i];
  }
  return eight;
}

template <bool kEven>
__device__ void StoreSome(uint8_t* to, uint2 codes, int64_t count) {
  if constexpr (kEven) {
    if (count > 0) *reinterpret_cast<uint2*>(to) = codes;
  } else {
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const uint32_t word = i < 4 ? codes.x : codes.y;
      if (i < count) to[i] = static_cast<uint8_t>(word >> (i % 4 * 8));
    }
  }
}

// The block's tile of transposed codes.
union TransposedTile {
  uint2 units[kTileColumns][kUnits];
  uint4 pieces[kTileColumns][kPieces];
};

// A thread's codes, by rows, into the tile. `across`, `unit`: its place.
__device__ void PutTransposed(TransposedTile& tile, const uint2 (&rows)[kSide], int across,
                              int unit) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // of its columns
    uint32_t top[4], bottom[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      top[i] = half == 0 ? rows[i].x : rows[i].y;
      bottom[i] = half == 0 ? rows[i + 4].x : rows[i + 4].y;
    }
    TransposeBytes(top);
    TransposeBytes(bottom);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      tile.units[across * kSide + half * 4 + i][unit ^ across] = {top[i], bottom[i]};
    }
  }
}

// Rows of transposed codes begin and end at multiples of 16 bytes.
__device__ void StoreTransposed(const TransposedTile& tile, const Cast& cast, int64_t first_row,
                                int64_t first_column) {
  constexpr int kAtOnce = kThreads / kPieces;  // columns
  const int piece = threadIdx.x % kPieces;
  const int64_t row = first_row + piece * 16;
#pragma unroll
  for (int i = 0; i < kTileColumns / kAtOnce; ++i) {
    const int column = i * kAtOnce + threadIdx.x / kPieces;
    const int swap = column / kSide;
    uint4 codes = tile.pieces[column][piece ^ (swap / 2)];
    if (swap % 2 != 0) codes = {codes.z, codes.w, codes.x, codes.y};
    if (row < cast.padded && first_column + column < cast.columns) {
      uint8_t* const to = cast.transposed + (first_column + column) * cast.padded + row;
      *reinterpret_cast<uint4*>(to) = codes;
    }
  }
}

// Adds the threads' sums of their columns in a fixed order.
__device__ void StoreSums(float (&sums)[kSide], float (&shared)[kWarps][kTileColumns],
                          const Cast& cast, int64_t tile_row, int64_t first_column) {
#pragma unroll
  for (int i = 0; i < kSide; ++i) sums[i] += __shfl_xor_sync(~0u, sums[i], kAcross);
  const int lane = threadIdx.x % kWarp;
  if (lane < kAcross) {
#pragma unroll
    for (int i = 0; i < kSide; i += 4) {
      reinterpret_cast<float4&>(shared[threadIdx.x / kWarp][lane * kSide + i]) = {
          sums[i], sums[i + 1], sums[i + 2], sums[i + 3]};
    }
  }
  __syncthreads();
  const int64_t column = first_column + threadIdx.x;
  if (threadIdx.x >= kTileColumns || column >= cast.columns) return;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) sum += shared[i][threadIdx.x];
  cast.partials[tile_row * cast.columns + column] = sum;
}

// kEven: columns are a multiple of 8. Results that are null are not written; those that the
// template leaves out cost nothing.
template <typename T, typename Code, bool kTransposed, bool kSums, bool kEven>
__global__ void __launch_bounds__(kThreads) CastTilesKernel(const T* x, Cast cast) {
  __shared__ TransposedTile tile;
  __shared__ __align__(16) float shared_sums[kWarps][kTileColumns];
  const auto tiles_across = static_cast<unsigned>((cast.columns + kTileColumns - 1) / kTileColumns);
  const unsigned tile_index = FromTheEnd();
  const int64_t tile_row = tile_index / tiles_across;
  const int64_t first_row = tile_row * kTileRows;
  const int64_t first_column = int64_t{tile_index % tiles_across} * kTileColumns;
  const int across = threadIdx.x % kAcross, unit = threadIdx.x / kAcross;
  const int64_t row = first_row + unit * kSide, column = first_column + across * kSide;
  const int64_t at = row * cast.columns + column;

  Eight<T> loaded[kSide];
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    const int64_t count = row + i < cast.rows ? cast.columns - column : 0;
    loaded[i] = LoadSome<kEven>(x + at + i * cast.columns, count);
  }
  const float to_code = ReadScale<Code>(cast).to_code;
  uint2 codes[kSide];
  float sums[kSide] = {};
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    float numbers[kSide];
    ToFloats(loaded[i], numbers);
    codes[i] = EightCodes<Code>(numbers, to_code);
    if constexpr (kSums) {
#pragma unroll
      for (int j = 0; j < kSide; ++j) sums[j] += numbers[j];
    }
  }
  if (cast.codes != nullptr) {
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const int64_t count = row + i < cast.rows ? cast.columns - column : 0;
      StoreSome<kEven>(cast.codes + at + i * cast.columns, codes[i], count);
    }
  }
  if (kTransposed && cast.transposed != nullptr) {
    PutTransposed(tile, codes, across, unit);
    __syncthreads();
    StoreTransposed(tile, cast, first_row, first_column);
  }
  if (kSums && cast.partials != nullptr) {
    StoreSums(sums, shared_sums, cast, tile_row, first_column);
  }
}

constexpr int kEights = 4;  // of a thread, in flight

// Codes alone: n elements, in any shape.
template <typename T, typename Code>
__global__ void __launch_bounds__(kThreads) CastKernel(const T* x, int64_t n, Cast cast) {
  const int64_t first = int64_t{FromTheEnd()} * (kThreads * kEights) + threadIdx.x;
  Eight<T> loaded[kEights];
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    const int64_t at = (first + i * kThreads) * kSide;
    if (at + kSide <= n) loaded[i] = LoadEight(x + at);
  }
  const float to_code = ReadScale<Code>(cast).to_code;
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    const int64_t at = (first + i * kThreads) * kSide;
    if (at >= n) return;
    const bool whole = at + kSide <= n;
    if (!whole) loaded[i] = LoadSome<false>(x + at, n - at);
    float numbers[kSide];
    ToFloats(loaded[i], numbers);
    const uint2 codes = EightCodes<Code>(numbers, to_code);
    if (whole) {
      StoreSome<true>(cast.codes + at, codes, kSide);
    } else {
      StoreSome<false>(cast.codes + at, codes, n - at);
    }
  }
}

template <typename Code>
__global__ void ScaleKernel(Cast cast) {
  ReadScale<Code>(cast);
}

template <typename T, typename Code>
void Launch(cudaStream_t stream, const T* x, const Cast& cast) {
  const int64_t tiles =
      QuantizeTiles(cast.rows) * ((cast.columns + kTileColumns - 1) / kTileColumns);
  const bool transposed = cast.transposed != nullptr, sums = cast.partials != nullptr;
  const int64_t n = cast.rows * cast.columns;
  if (n == 0 || (!transposed && !sums && cast.codes == nullptr)) {
    if (cast.scale != nullptr) ScaleKernel<Code><<<1, 1, 0, stream>>>(cast);
  } else if (!transposed && !sums) {
    constexpr int64_t kOfBlock = int64_t{kThreads} * kEights * kSide;
    CastKernel<T, Code>
        <<<static_cast<unsigned>((n + kOfBlock - 1) / kOfBlock), kThreads, 0, stream>>>(x, n, cast);
  } else {
    auto* kernel = &CastTilesKernel<T, Code, true, true, false>;
    if (cast.columns % kSide == 0) {
      kernel = !sums         ? &CastTilesKernel<T, Code, true, false, true>
               : !transposed ? &CastTilesKernel<T, Code, false, true, true>
                             : &CastTilesKernel<T, Code, true, true, true>;
    }
    kernel<<<static_cast<unsigned>(tiles), kThreads, 0, stream>>>(x, cast);
  }
  gpu::CheckLaunch("quantize");
}

void Quantize(const CudaContext& ctx) {
  const graph::Shape& x = ctx.in_shape(0);
  Cast cast{};
  cast.rows = x.rows();
  cast.columns = x.dim(-1);
  cast.padded = TransposedRow(cast.rows);
  cast.transposed = ctx.out<uint8_t>(0);
  cast.codes = ctx.out<uint8_t>(1);
  cast.scale = ctx.out<float>(2);
  cast.largest = ctx.in<uint32_t>(1);
  if (ctx.has_input(3)) cast.expected = ctx.in<uint32_t>(3) + ctx.attributes.GetInt("index");
  if (ctx.has_output(3)) cast.partials = static_cast<float*>(ctx.workspace);
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    if (graph::ParseDType(ctx.attributes.GetWord("dtype")) == graph::DType::kFloat8E4M3) {
      Launch<T, Float8E4M3>(ctx.stream, ctx.in<T>(0), cast);
    } else {
      Launch<T, Float8E5M2>(ctx.stream, ctx.in<T>(0), cast);
    }
  });
  if (ctx.has_output(3) && cast.columns > 0) {
    AddPartialSums(ctx.stream, cast.partials, QuantizeTiles(cast.rows), cast.columns,
                   ctx.in<float>(2), ctx.out<float>(3));
  }
}

const CudaKernelRegistration kQuantize({"quantize", &Quantize});

}  // namespace
}  // namespace plimsoll::ops
