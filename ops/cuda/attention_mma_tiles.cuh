// What the attention kernels of attention_mma_forward.cu and attention_mma_backward.cu have in
// common: tiles in shared memory, and their products on the tensor cores by mma.sync (mma.cuh).
//
// A warp has kBlocks blocks of 16 rows. Its results d[block][j] have 8 columns each; lane l's
// values are at rows l / 4 and l / 4 + 8, columns 8·j + 2·(l % 4) + {0, 1}. The scores of one
// product are in registers the left operand of the next: for TF32 both operands' inner elements are
// taken in the order 0 2 4 6 1 3 5 7, which spares shuffles.
//
// A row in shared memory is 16 bytes longer than its elements, so that eight rows' pieces of 16
// bytes, and every second row's for TF32, lie in different banks. float32 tiles that stay are
// rounded to TF32 there once; those that change are rounded in registers after each load.
#pragma once

#include <cmath>

#include "ops/cuda/attention_dropout.cuh"
#include "ops/cuda/exp2.cuh"
#include "ops/cuda/mma.cuh"

namespace plimsoll::ops {

inline constexpr int kMmaThreads = 128;  // for one set of rows
inline constexpr int kMmaWarps = kMmaThreads / 32;

// Bytes of a row of `width` elements in shared memory.
template <typename T>
constexpr int MmaRowBytes(int width) {
  return width * static_cast<int>(sizeof(T)) + 16;
}

__device__ inline char* MmaMemory() {
  extern __shared__ __align__(16) char mma_memory[];
  return mma_memory;
}

// Copies kRows rows at a time of a matrix in global memory; rows from `end` on and columns from
// `width` on become zeros. A thread has one column of pieces of 16 bytes, in every kStep-th row.
template <typename T, int kRows, int kWidth, int kThreads>
class MmaCopy {
 public:
  __device__ MmaCopy(const T* data, int64_t stride, int end, int width) : stride_(stride) {
    const int row = static_cast<int>(threadIdx.x) / kPieces, piece = threadIdx.x % kPieces;
    const int column = piece * (16 / static_cast<int>(sizeof(T)));
    const bool there = column < width;
    from_ = data + row * stride + column;
    end_ = there ? end - row : 0;
    to_ = static_cast<uint32_t>(row * MmaRowBytes<T>(kWidth) + piece * 16);
  }

  // Starts copying rows first, first + 1, …, from `further` elements on.
  __device__ void Start(uint32_t to, int first, int further = 0) const {
    const T* const from = from_ + first * stride_ + further;
    Each([&](int row) {
      const bool there = first + row < end_;
      CopyPiece(to + to_ + row * MmaRowBytes<T>(kWidth), there ? from + row * stride_ : from_,
                there);
    });
  }

  // Rounds what this thread has copied, and waited for, to TF32.
  __device__ void Round(uint32_t at) const {
    if constexpr (kIsTf32<T>) {
      Each([&](int row) {
        uint32_t words[4];
        LoadPiece(words, at + to_ + row * MmaRowBytes<T>(kWidth));
        RoundTf32(words);
        StorePiece(at + to_ + row * MmaRowBytes<T>(kWidth), words);
      });
    }
  }

 private:
  static constexpr int kPieces = kWidth * static_cast<int>(sizeof(T)) / 16;  // of a row
  static constexpr int kStep = kThreads / kPieces;
  static_assert(kStep >= 1);

  // Calls body(row), counted from this thread's first row, for its share.
  template <typename Body>
  __device__ static void Each(const Body& body) {
    const bool idle = kThreads % kPieces != 0 && threadIdx.x >= kStep * kPieces;
    if (idle) return;
#pragma unroll
    for (int row = 0; row < kRows; row += kStep) {
      if (kRows % kStep == 0 || row + static_cast<int>(threadIdx.x) / kPieces < kRows) body(row);
    }
  }

  const T* from_;
  int64_t stride_;
  uint32_t to_;
  int end_;
};

// The left operand of a product: a warp's 16·kBlocks rows of a tile, kWidth wide.
template <typename T, int kBlocks, int kWidth>
class SharedLeft {
 public:
  // `tile`: the address of the warp's first row.
  __device__ explicit SharedLeft(uint32_t tile)
      : from_(tile + threadIdx.x % 16 * MmaRowBytes<T>(kWidth) + threadIdx.x % 32 / 16 * 16) {}

  __device__ void Load(int step, uint32_t (&a)[kBlocks][4]) const {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      LoadMatrices(a[m], from_ + m * 16 * MmaRowBytes<T>(kWidth) + step * 32);
    }
  }

 private:
  uint32_t from_;
};

// The same in registers.
template <typename T, int kBlocks, int kWidth>
class HeldLeft {
 public:
  __device__ explicit HeldLeft(uint32_t tile) {
    const SharedLeft<T, kBlocks, kWidth> shared(tile);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) shared.Load(step, values_[step]);
  }

  __device__ void Load(int step, uint32_t (&a)[kBlocks][4]) const {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[m][i] = values_[step][m][i];
    }
  }

 private:
  static constexpr int kSteps = kWidth / kMmaDepth<T>;
  uint32_t values_[kSteps][kBlocks][4];
};

// d = a·bᵀ over the whole width for the first kColumns rows of the tile b.
template <typename T, int kBlocks, int kColumns, int kWidth, typename Left>
__device__ void MultiplyRows(float (&d)[kBlocks][kColumns / 8][4], const Left& left, uint32_t b) {
  const int lane = threadIdx.x % 32;
  b += (lane % 8 + lane / 16 * 8) * MmaRowBytes<T>(kWidth) + lane / 8 % 2 * 16;
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) d[m][j][i] = 0;
    }
  }
#pragma unroll
  for (int step = 0; step < kWidth / kMmaDepth<T>; ++step) {
    uint32_t a[kBlocks][4];
    left.Load(step, a);
#pragma unroll
    for (int j = 0; j < kColumns / 8; j += 2) {
      uint32_t right[4];
      LoadMatrices(right, b + j * 8 * MmaRowBytes<T>(kWidth) + step * 32);
      if constexpr (kIsTf32<T>) RoundTf32(right);
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
        Multiply<T>(d[m][j], a[m], right[0], right[1]);
        Multiply<T>(d[m][j + 1], a[m], right[2], right[3]);
      }
    }
  }
}

// d += weights·b for kRows rows of the tile b, from its column on that `b` points to.
template <typename T, int kBlocks, int kRows, int kColumns, int kWidth>
__device__ void AddWeighted(float (&d)[kBlocks][kColumns / 8][4],
                            const float (&weights)[kBlocks][kRows / 8][4], uint32_t b) {
  const int lane = threadIdx.x % 32;
  if constexpr (kIsTf32<T>) {
    b += lane % 4 * 2 * MmaRowBytes<T>(kWidth) + lane / 4 * 4;
#pragma unroll
    for (int k = 0; k < kRows / 8; ++k) {
      uint32_t a[kBlocks][4];
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
        const float(&w)[4] = weights[m][k];
        a[m][0] = __float_as_uint(w[0]), a[m][1] = __float_as_uint(w[2]);
        a[m][2] = __float_as_uint(w[1]), a[m][3] = __float_as_uint(w[3]);
        RoundTf32(a[m]);
      }
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j) {
        const uint32_t even = LoadWord(b + k * 8 * MmaRowBytes<T>(kWidth) + j * 32);
        const uint32_t odd = LoadWord(b + (k * 8 + 1) * MmaRowBytes<T>(kWidth) + j * 32);
        const uint32_t right[2] = {RoundTf32(even), RoundTf32(odd)};
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) Multiply<T>(d[m][j], a[m], right[0], right[1]);
      }
    }
  } else {
    b += lane % 16 * MmaRowBytes<T>(kWidth) + lane / 16 * 16;
#pragma unroll
    for (int k = 0; k < kRows / 16; ++k) {
      uint32_t a[kBlocks][4];
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* const w = weights[m][2 * k + i / 2] + i % 2 * 2;
          a[m][i] = PackTwo<T>(w[0], w[1]);
        }
      }
#pragma unroll
      for (int j = 0; j < kColumns / 8; j += 2) {
        uint32_t right[4];
        LoadTransposedMatrices(right, b + k * 16 * MmaRowBytes<T>(kWidth) + j * 16);
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
          Multiply<T>(d[m][j], a[m], right[0], right[1]);
          Multiply<T>(d[m][j + 1], a[m], right[2], right[3]);
        }
      }
    }
  }
}

// Writes a weighted sum's block of 16 rows, scaled: row r of this lane's two rows by scale[r], if
// it is below `count`. `to`: the first row and column.
template <typename T, int kColumns>
__device__ void StoreSums(const float (&from)[kColumns / 8][4], const float (&scale)[2], T* to,
                          int64_t stride, int count, int width) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + r * 8;
    if (row >= count) continue;
    T* const out = to + row * stride;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const int column = j * 8 + lane % 4 * 2;
      if (column >= width) continue;
      const float two[2] = {from[j][r * 2] * scale[r], from[j][r * 2 + 1] * scale[r]};
      StorePack(out + column, two);
    }
  }
}

template <typename T>
__device__ void LoadEight(const T* from, float (&to)[8]) {
#pragma unroll
  for (int i = 0; i < 8; i += kPackSize<T>) {
    LoadPack(from + i, reinterpret_cast<float(&)[kPackSize<T>]>(to[i]));
  }
}

// Of a row whose values are in four neighbouring lanes.
__device__ inline float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ inline float QuadSum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}


}  // namespace plimsoll::ops
