// transposed = codesᵀ, padded with zeros (ops/linear/transpose_codes.h).
//
// Tiles of 128 × 128, as those of quantize (ops/cuda/quantize_tiles.cuh): a thread loads 8 rows of
// 8 codes and transposes them in registers; the block's columns go through shared memory, and are
// written in pieces of 16 bytes.
//
// Bytes: codes once, the result once.
#include "gpu/check.h"
#include "ops/cuda/quantize_tiles.cuh"
#include "ops/cuda_kernel.h"
#include "ops/linear/quantize.h"
#include "ops/linear/transpose_codes.h"

namespace plimsoll::ops {
namespace {

using namespace cast_tiles;

template <bool kEven>
__global__ void __launch_bounds__(kThreads) TransposeKernel(const uint8_t* codes, const Cast cast) {
  __shared__ TransposedTile<kTileRows, kTileColumns> tile;
  const auto tiles_across = static_cast<unsigned>((cast.columns + kTileColumns - 1) / kTileColumns);
  const int64_t first_row = int64_t{blockIdx.x / tiles_across} * kTileRows;
  const int64_t first_column = int64_t{blockIdx.x % tiles_across} * kTileColumns;
  const int across = threadIdx.x % kAcross, unit = threadIdx.x / kAcross;
  const int64_t row = first_row + unit * kSide, column = first_column + across * kSide;
  uint2 rows[kSide];
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    const int64_t count = row + i < cast.rows ? cast.columns - column : 0;
    rows[i] = LoadCodes<kEven>(codes + (row + i) * cast.columns + column, count);
  }
  PutTransposed(tile, rows, across, unit);
  __syncthreads();
  StoreTransposed(tile, cast, {0, cast.columns}, first_row, first_column);
}

void TransposeCodes(const CudaContext& ctx) {
  const graph::Shape& codes = ctx.in_shape(0);
  Cast cast{};
  cast.rows = codes.rows();
  cast.columns = codes.dim(-1);
  cast.padded = TransposedRow(cast.rows);
  cast.transposed = ctx.out<uint8_t>(0);
  if (cast.rows == 0 || cast.columns == 0) return;
  auto* const kernel = cast.columns % kSide == 0 ? &TransposeKernel<true> : &TransposeKernel<false>;
  const int64_t tiles =
      QuantizeTiles(cast.rows) * ((cast.columns + kTileColumns - 1) / kTileColumns);
  kernel<<<static_cast<unsigned>(tiles), kThreads, 0, ctx.stream>>>(ctx.in<uint8_t>(0), cast);
  gpu::CheckLaunch("transpose_codes");
}

const CudaKernelRegistration kTransposeCodes({"transpose_codes", &TransposeCodes});

}  // namespace
}  // namespace plimsoll::ops
