// The two matrix products of blockwise attention, in float32 fused multiply-adds, for a thread
// block of 128 threads. A warp has 16 rows of a 64 × 64 tile. Its lane l has the 4 rows from 4·(l /
// 8) on, and the columns 4·(l % 8) + 0 … 3 and those plus 32. So rows are reduced by shuffles, and
// both operands are read from shared memory 16 bytes at a time without bank conflicts.
#pragma once

#include "ops/cuda/elements.cuh"

namespace plimsoll::ops {

inline constexpr int kTile = 64;  // rows and columns of a tile
inline constexpr int kTileThreads = 128;
inline constexpr int kTileDepth = 32;   // part of a product's inner dimension that is processed at
                                        // a time
inline constexpr int kTileRows = 4;     // rows of a thread
inline constexpr int kTileColumns = 8;  // columns of a thread

// Position of this thread's elements in a tile.
struct TilePlace {
  __device__ TilePlace()
      : row((threadIdx.x / 32) * 16 + (threadIdx.x % 32) / 8 * 4), column(threadIdx.x % 8 * 4) {}
  __device__ int Column(int i) const { return column + i / 4 * 32 + i % 4; }

  int row, column;
};

// Rows of a matrix in global memory: `count` rows exist, with `width` elements each; others count
// as zero. `packed`: every row can be read 16 bytes at a time.
template <typename T>
struct TileRows {
  const T* data;
  int64_t stride;
  int count;
  int width;
  bool packed;
};

struct TileBuffers {
  float a[kTileDepth * kTile];
  float b[kTileDepth * kTile];
};

// to[d][r] = rows[r][from + d] for 64 rows and kTileDepth columns.
template <typename T>
__device__ void LoadTransposed(const TileRows<T>& rows, int from, float* to) {
  constexpr int kPack = kPackSize<T>;
  constexpr int kPerThread = kTileDepth * kTile / kTileThreads;
  const int r = threadIdx.x % kTile;
  const int first = threadIdx.x / kTile * kPerThread;
  const T* const row = rows.data + r * rows.stride + from + first;
  const int left = r < rows.count ? rows.width - from - first : 0;
  float values[kPerThread];
  if (rows.packed && left >= kPerThread) {
#pragma unroll
    for (int i = 0; i < kPerThread; i += kPack) {
      LoadPack(row + i, reinterpret_cast<float(&)[kPack]>(values[i]));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) values[i] = i < left ? ToFloat(row[i]) : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) to[(first + i) * kTile + r] = values[i];
}

// product[i][j] += Σ_d a[row i][d] · b[column j][d] over the complete width of the rows.
template <typename T>
__device__ void AddRowProducts(const TileRows<T>& a, const TileRows<T>& b, TileBuffers& buffers,
                               float (&product)[kTileRows][kTileColumns]) {
  const TilePlace at;
  for (int from = 0; from < a.width; from += kTileDepth) {
    __syncthreads();
    LoadTransposed(a, from, buffers.a);
    LoadTransposed(b, from, buffers.b);
    __syncthreads();
#pragma unroll 8
    for (int d = 0; d < kTileDepth; ++d) {
      float left[kTileRows], right[kTileColumns];
      LoadPack(buffers.a + d * kTile + at.row, left);
      LoadPack(buffers.b + d * kTile + at.column, reinterpret_cast<float(&)[4]>(right[0]));
      LoadPack(buffers.b + d * kTile + at.column + 32, reinterpret_cast<float(&)[4]>(right[4]));
#pragma unroll
      for (int i = 0; i < kTileRows; ++i) {
#pragma unroll
        for (int j = 0; j < kTileColumns; ++j)
          product[i][j] = fmaf(left[i], right[j], product[i][j]);
      }
    }
  }
}

// Stores the tile as weights[column][row], as AddWeightedRows reads it. Each warp writes and reads
// only its own rows.
__device__ inline void StoreWeights(const float (&tile)[kTileRows][kTileColumns], float* weights) {
  const TilePlace at;
#pragma unroll
  for (int j = 0; j < kTileColumns; ++j) {
    const float column[4] = {tile[0][j], tile[1][j], tile[2][j], tile[3][j]};
    StorePack(weights + at.Column(j) * kTile + at.row, column);
  }
  __syncwarp();
}

// sum[row i][c] += Σ_j weights[j][row i] · b[j][from + c] for kWidth columns: a thread has columns
// 4·(l % 8) + 0 … 3 of every 32.
template <int kWidth, typename T>
__device__ void AddWeightedRows(const float* weights, const TileRows<T>& b, int from,
                                TileBuffers& buffers, float (&sum)[kTileRows][kWidth / 8]) {
  constexpr int kPack = kPackSize<T>;
  constexpr int kDepth = 2 * kTileDepth * kTile / kWidth;  // rows of b that the buffers hold
  constexpr int kDepthUsed = kDepth < kTile ? kDepth : kTile;
  const TilePlace at;
  float* const shared = buffers.a;
  for (int first = 0; first < kTile && first < b.count; first += kDepthUsed) {
    __syncthreads();
    for (int i = threadIdx.x * kPack; i < kDepthUsed * kWidth; i += kTileThreads * kPack) {
      const int j = first + i / kWidth, c = from + i % kWidth;
      const T* const source = b.data + j * b.stride + c;
      const int left = j < b.count ? b.width - c : 0;
      float values[kPack];
      if (b.packed && left >= kPack) {
        LoadPack(source, values);
      } else {
#pragma unroll
        for (int e = 0; e < kPack; ++e) values[e] = e < left ? ToFloat(source[e]) : 0.0f;
      }
#pragma unroll
      for (int e = 0; e < kPack; e += 4) {
        StorePack(shared + i + e, reinterpret_cast<const float(&)[4]>(values[e]));
      }
    }
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < kDepthUsed; ++j) {
      float left[kTileRows];
      LoadPack(weights + (first + j) * kTile + at.row, left);
#pragma unroll
      for (int c = 0; c < kWidth / 8; c += 4) {
        float right[4];
        LoadPack(shared + j * kWidth + c * 8 + at.column, right);
#pragma unroll
        for (int i = 0; i < kTileRows; ++i) {
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[i][c + e] = fmaf(left[i], right[e], sum[i][c + e]);
        }
      }
    }
  }
}

// The maximum over the 8 lanes that share a row.
__device__ inline float RowMax(float x) {
#pragma unroll
  for (int offset = 4; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
  return x;
}

__device__ inline float RowSum(float x) {
#pragma unroll
  for (int offset = 4; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

}  // namespace plimsoll::ops
