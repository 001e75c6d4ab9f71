// What becomes of the sums of a product on Hopper (hopper_gemm.cuh): rounded and stored, plus a
// bias where there is one.
#pragma once

#include <cuda.h>

#include "ops/cuda/hopper_gemm.cuh"

namespace plimsoll::ops {

// Rounds to T and stores, 64 columns at a time: through shared memory, where the copy engine takes
// them; two pieces of a warpgroup are under way.
template <typename T>
struct StoreRounded {
  static constexpr int kSharedBytes = 2 * kOperandTile;

  CUtensorMap to;  // boxes of 64 rows
  const T* bias;   // [columns] or nullptr

  template <int kCount>
  __device__ void operator()(float (&sums)[kCount], const HopperTile& tile, char* shared) const {
    const int thread = threadIdx.x % kWarpgroup, lane = thread % 32;
    const ResultPlace at;
    if (bias != nullptr) {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        const int column = tile.column + at.Column(i);
        float2 two = {0, 0};
        if (column < tile.columns) {  // an even number of them
          const uint32_t pair = *reinterpret_cast<const uint32_t*>(bias + column);
          two = {Low<T>(pair), High<T>(pair)};
        }
        sums[i] += two.x;
        sums[i + 1] += two.y;
        sums[i + 2] += two.x;
        sums[i + 3] += two.y;
      }
    }
    const int row = thread / 32 * 16 + lane % 16;  // of the matrix rows that this lane addresses
    const uint32_t memory = SharedAddress(shared);
    constexpr int kPieces = (kCount + 31) / 32;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const uint32_t buffer = memory + piece % 2 * kOperandTile;
      if (thread == 0) AwaitStoredBoxes<1>();
      tile.Barrier();
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int first = piece * 32 + k * 8;
        if (first < kCount) {
          uint32_t values[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            values[i] = PackTwo<T>(sums[first + i * 2], sums[first + i * 2 + 1]);
          }
          StoreMatrices(buffer + PieceOffset(row, k * 2 + lane / 16), values);
        }
      }
      FenceSharedWrites();
      tile.Barrier();
      if (thread == 0 && tile.row < tile.rows) {
        StoreBox(&to, tile.row, tile.column + piece * 64, buffer);
      }
    }
  }
};

}  // namespace plimsoll::ops
