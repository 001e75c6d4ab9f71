// The largest magnitude of 64 × 64 results, in the registers of a warpgroup as Hopper's tensor
// cores leave them. It is found before they are stored, so that no register is needed for longer.
#pragma once

#include "ops/cuda/attention/attention_largest.cuh"
#include "ops/cuda/wgmma.cuh"

namespace plimsoll::ops {

// The largest magnitude of this thread's values in rows before `rows` and columns before `columns`.
__device__ inline uint32_t LargestOfTile(const float (&from)[32], int rows, int columns) {
  const ResultPlace at;
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    if (at.Row(i) < rows && at.Column(i) < columns) largest = max(largest, MagnitudeBits(from[i]));
  }
  return largest;
}

// All lanes of a warp call it with a result. Raises *to to the largest magnitude of the result as
// it is stored: scaled and rounded to T. `to`: nullptr if it is not requested.
template <typename T>
__device__ void AddLargestOfTile(const float (&from)[32], float scale, int rows, int columns,
                                 uint32_t* to) {
  if (to == nullptr) return;
  AddStoredMagnitude<T>(LargestOfTile(from, rows, columns), scale, to);
}

// Like the function above, for kPieces adjacent results.
template <typename T, int kPieces>
__device__ void AddLargestOfTiles(const float (&from)[kPieces][32], float scale, int rows,
                                  int columns, uint32_t* to) {
  if (to == nullptr) return;
  uint32_t largest = 0;
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    largest = max(largest, LargestOfTile(from[piece], rows, columns - piece * 64));
  }
  AddStoredMagnitude<T>(largest, scale, to);
}

}  // namespace plimsoll::ops
