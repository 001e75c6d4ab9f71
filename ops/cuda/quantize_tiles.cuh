// Tiles of 8-bit codes and transposed codes of a tensor (ops/linear/quantize.h). A kernel's
// `Source` reads the tensor, or computes it without storing it.
//
// Tiles of 128 × 128: a thread has 8 rows of 8 columns; 16 threads share a row. It stores its codes
// directly, 8 bytes per row. For the transposed copy it transposes its bytes in registers and
// writes them to shared memory, 8 bytes of 8 rows for each column; then 8 threads write a column's
// 128 rows, in pieces of 16 bytes. Units of 8 bytes are permuted, so that neither the writes nor
// the reads of shared memory conflict. Column sums: 8 rows in a thread, then the block's, which are
// partial sums for a second launch (cuda/column_sums.h). Their order depends only on the shape, not
// on the source.
//
// Bytes: those that the source loads, codes once each; the partial sums, 1/32 of the tensor in
// bf16, are written and read.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/cuda/elements.cuh"
#include "ops/cuda/float8_codes.cuh"
#include "ops/cuda/largest.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/linear/code_scale.h"
#include "ops/linear/quantize_workspace.h"

namespace plimsoll::ops::cast_tiles {

inline constexpr int kThreads = 256, kWarps = kThreads / kWarp;
inline constexpr int kTileRows = kQuantizeTileRows, kTileColumns = 128;
inline constexpr int kSide = 8;                       // rows and columns of a thread
inline constexpr int kAcross = kTileColumns / kSide;  // threads that share a row
static_assert(kAcross * (kTileRows / kSide) == kThreads);

struct Cast {
  int64_t rows, columns, padded;  // padded: elements in a transposed row
  const uint32_t* largest;  // magnitude from which the scale is made, unless `expected` gives one
  // magnitudes expected from earlier steps; nullptr means that the scale is made from `largest`
  const uint32_t* expected;
  uint32_t* found;  // raised by sources that find the largest magnitude
  // nullptr if not requested
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

// The index of the block's tile. The last tiles come first, because the L2 cache still holds them
// after the previous kernel.
__device__ inline unsigned FromTheEnd() { return gridDim.x - 1 - blockIdx.x; }

template <typename T>
using Eight = Pack<T, kSide>;

// Loads from a multiple of 16 bytes.
template <typename T>
__device__ Eight<T> LoadEight(const T* from) {
  Eight<T> eight;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(eight) / sizeof(uint4)); ++i) {
    reinterpret_cast<uint4*>(&eight)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  return eight;
}

// Elements from `count` on are zeros. kEven: `from` is at a multiple of 16 bytes, and count is at
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

// Loads codes, at an address that is a multiple of 8 bytes.
template <bool kEven>
__device__ uint2 LoadCodes(const uint8_t* from, int64_t count) {
  if constexpr (kEven) {
    return count > 0 ? *reinterpret_cast<const uint2*>(from) : uint2{};
  } else {
    uint32_t words[2] = {};
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      if (i < count) words[i / 4] |= uint32_t{from[i]} << i % 4 * 8;
    }
    return {words[0], words[1]};
  }
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

// The transposed codes of a tile of kRows rows, which a thread block computes. Its units of 8
// bytes, in the order of columns, are stored at index number ^ (column / 8 % 16). So 16 threads
// that have the same rows of 16 times 8 columns write to different banks.
template <int kRows, int kColumns>
union TransposedTile {
  static constexpr int kUnits = kRows / kSide;  // number of 8-byte words in a column
  static constexpr int kPieces = kRows / 16;    // number of 16-byte pieces in a column
  // number of places among which words are swapped; pieces have half as many
  static constexpr int kSwaps = 16;
  uint2 units[kColumns * kUnits];
  uint4 pieces[kColumns * kPieces];
};

// Writes a thread's codes, which are in rows, to the tile. `across`, `unit`: the thread's position.
template <int kRows, int kColumns>
__device__ void PutTransposed(TransposedTile<kRows, kColumns>& tile, const uint2 (&rows)[kSide],
                              int across, int unit) {
  using Tile = TransposedTile<kRows, kColumns>;
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // for each half of the thread's columns
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
      const int column = across * kSide + half * 4 + i;
      tile.units[(column * Tile::kUnits + unit) ^ (across % Tile::kSwaps)] = {top[i], bottom[i]};
    }
  }
}

// Some columns of the tensor, which are divided into tiles.
struct Columns {
  int64_t first, count;
};

// Rows of transposed codes begin and end at multiples of 16 bytes. `first_column`: the tile's first
// column among `of`.
template <int kRows, int kColumns>
__device__ void StoreTransposed(const TransposedTile<kRows, kColumns>& tile, const Cast& cast,
                                Columns of, int64_t first_row, int64_t first_column) {
  using Tile = TransposedTile<kRows, kColumns>;
  constexpr int kPieces = Tile::kPieces, kAtOnce = kThreads / kPieces;  // columns at once
  const int piece = threadIdx.x % kPieces;
  const int64_t row = first_row + piece * 16;
#pragma unroll
  for (int i = 0; i < kColumns / kAtOnce; ++i) {
    const int column = i * kAtOnce + threadIdx.x / kPieces;
    const int swap = column / kSide % Tile::kSwaps;
    uint4 codes = tile.pieces[(column * kPieces + piece) ^ (swap / 2)];
    if (swap % 2 != 0) codes = {codes.z, codes.w, codes.x, codes.y};
    if (row < cast.padded && first_column + column < of.count) {
      uint8_t* const to = cast.transposed + (of.first + first_column + column) * cast.padded + row;
      *reinterpret_cast<uint4*>(to) = codes;
    }
  }
}

// Adds the threads' sums of their columns in a fixed order.
__device__ inline void StoreSums(float (&sums)[kSide], float (&shared)[kWarps][kTileColumns],
                                 const Cast& cast, Columns of, int64_t tile_row,
                                 int64_t first_column) {
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
  if (threadIdx.x >= kTileColumns || column >= of.count) return;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) sum += shared[i][threadIdx.x];
  cast.partials[tile_row * cast.columns + of.first + column] = sum;
}

// A source computes the tensor's numbers, rounded to the tensor's type:
//
//   Element           that type
//   kParts            number of equal parts of the tensor's columns; a thread computes the same
//                     columns of each
//   kRows             rows that a thread loads before it computes their numbers: bytes in flight
//   kFindsLargest     whether Cast::found is raised to the largest magnitude
//   Load<kEven>       → Loaded: the operands of eight numbers of each part. `column` is a column of
//                     a part of `width` columns; columns from `count` on become zeros
//   Make              computes the numbers of all parts
//
// kEven: a part's columns are a multiple of 8. Results that are null are not written; those that
// the template leaves out cost nothing.
template <typename Source, typename Code, bool kTransposed, bool kSums, bool kEven>
__global__ void __launch_bounds__(kThreads) CastTilesKernel(const Source source, const Cast cast) {
  constexpr int kParts = Source::kParts, kRows = Source::kRows;
  __shared__ TransposedTile<kTileRows, kTileColumns> tile;
  __shared__ __align__(16) float shared_sums[kWarps][kTileColumns];
  const int64_t width = cast.columns / kParts;
  const auto tiles_across = static_cast<unsigned>((width + kTileColumns - 1) / kTileColumns);
  const unsigned tile_index = FromTheEnd();
  const int64_t tile_row = tile_index / tiles_across;
  const int64_t first_row = tile_row * kTileRows;
  const int64_t first_column = int64_t{tile_index % tiles_across} * kTileColumns;
  const int across = threadIdx.x % kAcross, unit = threadIdx.x / kAcross;
  const int64_t row = first_row + unit * kSide, column = first_column + across * kSide;

  float to_code = 1;
  uint2 codes[kParts][kSide];
  float sums[kParts][kSide] = {};
  uint32_t largest = 0;
#pragma unroll
  for (int first = 0; first < kSide; first += kRows) {
    typename Source::Loaded loaded[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int64_t at = row + first + i;
      const int64_t count = at < cast.rows ? width - column : 0;
      loaded[i] = source.template Load<kEven>(at, column, width, count);
    }
    if (first == 0) to_code = ReadScale<Code>(cast).to_code;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      Eight<typename Source::Element> made[kParts];
      Source::Make(loaded[i], made);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        float numbers[kSide];
        ToFloats(made[part], numbers);
        codes[part][first + i] = EightCodes<Code>(numbers, to_code);
        if constexpr (Source::kFindsLargest) largest = WithMagnitudes(largest, made[part]);
        if constexpr (kSums) {
#pragma unroll
          for (int j = 0; j < kSide; ++j) sums[part][j] += numbers[j];
        }
      }
    }
  }
  if (cast.codes != nullptr) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      uint8_t* const to = cast.codes + row * cast.columns + part * width + column;
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
        const int64_t count = row + i < cast.rows ? width - column : 0;
        StoreSome<kEven>(to + i * cast.columns, codes[part][i], count);
      }
    }
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Columns columns{part * width, width};
    if (part > 0) __syncthreads();  // all threads have read shared memory
    if (kTransposed && cast.transposed != nullptr) {
      PutTransposed(tile, codes[part], across, unit);
      __syncthreads();
      StoreTransposed(tile, cast, columns, first_row, first_column);
    }
    if (kSums && cast.partials != nullptr) {
      StoreSums(sums[part], shared_sums, cast, columns, tile_row, first_column);
    }
  }
  if constexpr (Source::kFindsLargest) {
    __shared__ uint32_t shared_largest[kWarps];
    AddLargest<kThreads>(largest, shared_largest, cast.found);
  }
}

// The number of thread blocks of CastTilesKernel.
template <typename Source>
unsigned CastBlocks(const Cast& cast) {
  const int64_t width = cast.columns / Source::kParts;
  return static_cast<unsigned>(QuantizeTiles(cast.rows) *
                               ((width + kTileColumns - 1) / kTileColumns));
}

}  // namespace plimsoll::ops::cast_tiles
