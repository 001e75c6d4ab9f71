// The largest magnitude of results of 64 rows and columns, as Hopper's tensor cores leave them in
// the registers of a warpgroup. It is found before they are stored, so that no register is needed
// for longer.
#pragma once

#include "ops/cuda/attention/attention_largest.cuh"
#include "ops/cuda/wgmma.cuh"

namespace plimsoll::ops {

// Of this thread's values, those in rows before `rows` and columns before `columns`.
__device__ inline uint32_t LargestOfTile(const float (&from)[32], int rows, int columns) {
  const ResultPlace at;
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    if (at.Row(i) < rows && at.Column(i) < columns) largest = max(largest, MagnitudeBits(from[i]));
  }
  return largest;
}

// All lanes of a warp call it with a result: *to becomes at least the largest magnitude that is
// stored of it, scaled, as a T. `to`: nullptr if nobody wants it.
template <typename T>
__device__ void AddLargestOfTile(const float (&from)[32], float scale, int rows, int columns,
                                 uint32_t* to) {
  if (to == nullptr) return;
  AddStoredMagnitude<T>(LargestOfTile(from, rows, columns), scale, to);
}

// The same for kPieces results side by side.
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
