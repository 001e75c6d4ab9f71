// Code that attention_mma_forward.cu, attention_mma_dq.cu and attention_mma_dkdv.cu share: tiles in
// shared memory, and their products on the tensor cores by mma.sync (mma.cuh).
//
// A warp has kBlocks blocks of 16 rows. Its results d[block][j] have 8 columns each; lane l's
// values are at rows l / 4 and l / 4 + 8, columns 8·j + 2·(l % 4) + {0, 1}. The scores of one
// product are in registers as the left operand of the next: for TF32 both operands' inner elements
// are taken in the order 0 2 4 6 1 3 5 7, which avoids shuffles.
//
// A row in shared memory is 16 bytes longer than its elements, so that eight rows' pieces of 16
// bytes, and every second row's for TF32, are in different banks. The threads that copied a float32
// tile round it to TF32 there, before the barrier that makes it visible to the others.
#pragma once

#include <cmath>

#include "ops/cuda/attention/attention_dropout.cuh"
#include "ops/cuda/attention/attention_largest.cuh"
#include "ops/cuda/attention/attention_ranges.cuh"
#include "ops/cuda/attention/attention_softcap.cuh"
#include "ops/cuda/exp2.cuh"
#include "ops/cuda/mma.cuh"

namespace plimsoll::ops {

inline constexpr int kMmaThreads = 128;  // threads for one set of rows
inline constexpr int kMmaWarps = kMmaThreads / 32;

// The bytes of a row of `width` elements in shared memory.
template <typename T>
constexpr int MmaRowBytes(int width) {
  return width * static_cast<int>(sizeof(T)) + 16;
}

__device__ inline char* MmaMemory() {
  extern __shared__ __align__(16) char mma_memory[];
  return mma_memory;
}

// The position in shared memory of a warp's 32 keys, if keys are the rows of results. With
// RowOfResult, a lane then has the four keys that share its blocks of draws (base/dropout_draws.h).
__device__ inline int PlaceOfKey(int key) {
  return key & ~31 | key / 8 % 2 * 16 | key % 2 * 8 | key / 16 % 2 * 4 | key / 2 % 4;
}

// The row, among the warp's rows, of a lane's results d[block][j][2·r + {0, 1}]. kPlaced: rows are
// keys, placed by PlaceOfKey.
template <bool kPlaced>
__device__ int RowOfResult(int block, int r) {
  const int row = static_cast<int>(threadIdx.x) % 32 / 4;
  return kPlaced ? row / 4 * 16 + block * 8 + row % 4 * 2 + r : block * 16 + r * 8 + row;
}

// Sets scores to −∞ if their key is before the first one that the query sees. Rows are the queries
// from warp_query on, columns the keys from first_key on; queries from `queries` on don't matter.
template <int kBlocks, int kColumns>
__device__ void HideEarlierKeys(const AttentionRanges& ranges, int64_t b, int warp_query,
                                int queries, int first_key, float (&p)[kBlocks][kColumns][4]) {
  const int column = first_key + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = warp_query + RowOfResult<false>(m, r);
      const int first = ranges.LastFirst(b, query + 1, queries);
#pragma unroll
      for (int i = 0; i < 2 * kColumns; ++i) {
        if (column + i / 2 * 8 + i % 2 < first) p[m][i / 2][r * 2 + i % 2] = -INFINITY;
      }
    }
  }
}

// Copies kRows rows at a time of a matrix in global memory; rows from `end` on and columns from
// `width` on become zeros. A thread copies one column of 16-byte pieces, in every kStep-th row.
// kPlaced: row i goes to the position PlaceOfKey(i).
template <typename T, int kRows, int kWidth, int kThreads, bool kPlaced = false>
class MmaCopy {
 public:
  __device__ MmaCopy(const T* data, int64_t stride, int end, int width) : stride_(stride) {
    const int row = static_cast<int>(threadIdx.x) / kPieces, piece = threadIdx.x % kPieces;
    const int column = piece * (16 / static_cast<int>(sizeof(T)));
    const bool there = column < width;
    from_ = data + row * stride + column;
    end_ = there ? end - row : 0;
    to_ = static_cast<uint32_t>((kPlaced ? 0 : row * MmaRowBytes<T>(kWidth)) + piece * 16);
  }

  // Starts copying the rows first, first + 1, …, beginning at column `further`.
  __device__ void Start(uint32_t to, int first, int further = 0) const {
    const T* const from = from_ + first * stride_ + further;
    Each([&](int row) {
      const bool there = first + row < end_;
      CopyPiece(to + To(row), there ? from + row * stride_ : from_, there);
    });
  }

  // Rounds the elements that this thread has copied, and waited for, to TF32.
  __device__ void Round(uint32_t at) const {
    if constexpr (kIsTf32<T>) {
      Each([&](int row) {
        uint32_t words[4];
        LoadPiece(words, at + To(row));
        RoundTf32(words);
        StorePiece(at + To(row), words);
      });
    }
  }

 private:
  static constexpr int kPieces = kWidth * static_cast<int>(sizeof(T)) / 16;  // pieces of a row
  static constexpr int kStep = kThreads / kPieces;
  static_assert(kStep >= 1);

  // The address of a row, counted from this thread's first row.
  __device__ uint32_t To(int row) const {
    const int place = kPlaced ? PlaceOfKey(static_cast<int>(threadIdx.x) / kPieces + row) : row;
    return to_ + static_cast<uint32_t>(place * MmaRowBytes<T>(kWidth));
  }

  // Calls body(row) for this thread's rows, counted from its first one.
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

// The left operand of the class above, but held in registers.
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

// Caps the products of queries and keys; does nothing without a cap.
template <typename Softcap, int kBlocks, int kColumns>
__device__ void CapProducts(const Softcap& softcap, float (&p)[kBlocks][kColumns][4]) {
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) CapProducts(softcap, p[m][j]);
  }
}

// d += a·bᵀ over the complete width, for the first kColumns rows of the tile b.
template <typename T, int kBlocks, int kColumns, int kWidth, typename Left>
__device__ void AddProducts(float (&d)[kBlocks][kColumns / 8][4], const Left& left, uint32_t b) {
  const int lane = threadIdx.x % 32;
  b += (lane % 8 + lane / 16 * 8) * MmaRowBytes<T>(kWidth) + lane / 8 % 2 * 16;
#pragma unroll
  for (int step = 0; step < kWidth / kMmaDepth<T>; ++step) {
    uint32_t a[kBlocks][4];
    left.Load(step, a);
#pragma unroll
    for (int j = 0; j < kColumns / 8; j += 2) {
      uint32_t right[4];
      LoadMatrices(right, b + j * 8 * MmaRowBytes<T>(kWidth) + step * 32);
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
        Multiply<T>(d[m][j], a[m], right[0], right[1]);
        Multiply<T>(d[m][j + 1], a[m], right[2], right[3]);
      }
    }
  }
}

// d += weights·b for kRows rows of the tile b. kMarked: negative weights count as zero.
template <typename T, int kBlocks, int kRows, int kWidth, bool kMarked = false>
__device__ void AddWeighted(float (&d)[kBlocks][kWidth / 8][4],
                            const float (&weights)[kBlocks][kRows / 8][4], uint32_t b) {
  const int lane = threadIdx.x % 32;
  if constexpr (kIsTf32<T>) {
    b += lane % 4 * 2 * MmaRowBytes<T>(kWidth) + lane / 4 * 4;
#pragma unroll
    for (int k = 0; k < kRows / 8; ++k) {
      uint32_t a[kBlocks][4];
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          a[m][i] = RoundTf32<kMarked>(__float_as_uint(weights[m][k][i % 2 * 2 + i / 2]));
        }
      }
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j) {
        const uint32_t even = LoadWord(b + k * 8 * MmaRowBytes<T>(kWidth) + j * 32);
        const uint32_t odd = LoadWord(b + (k * 8 + 1) * MmaRowBytes<T>(kWidth) + j * 32);
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) Multiply<T>(d[m][j], a[m], even, odd);
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
          a[m][i] =
              kMarked ? PackTwo<T>(fmaxf(w[0], 0.0f), fmaxf(w[1], 0.0f)) : PackTwo<T>(w[0], w[1]);
        }
      }
#pragma unroll
      for (int j = 0; j < kWidth / 8; j += 2) {
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

// Scales and writes a block of AddWeighted's results: this lane's row r goes to rows[r], if that is
// before `end`. `to`: row 0 and the first column. All lanes of a warp call it. Raises *largest to
// the largest magnitude, unless it is nullptr.
template <typename T, int kWidth>
__device__ void StoreSums(const float (&from)[kWidth / 8][4], const float (&scale)[2], T* to,
                          int64_t stride, const int (&rows)[2], int end, int width,
                          uint32_t* largest) {
  const int lane = threadIdx.x % 32;
  if (largest != nullptr) {
    uint32_t magnitude = 0;
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      const int r = i / 2 % 2;
      if (rows[r] >= end || i / 4 * 8 >= width) continue;
      magnitude = max(magnitude, MagnitudeBits(from[i / 4][i % 4] * scale[r]));
    }
    AddStoredMagnitude<T>(magnitude, 1, largest);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (rows[r] >= end) continue;
    T* const out = to + rows[r] * stride;
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j) {
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

// The maximum of a row whose values are in four neighbouring lanes.
__device__ inline float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ inline float QuadSum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

}  // namespace plimsoll::ops
