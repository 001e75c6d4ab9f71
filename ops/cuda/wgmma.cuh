// Matrix products of a warpgroup (128 threads) on Hopper's tensor cores, 64 × 64 results in
// registers, 16-bit operands from shared memory or, on the left, from registers. Only in code for
// sm_90a.
//
// A tile in shared memory is 64 rows of 64 elements (128 bytes), 1024-byte aligned, its 16-byte
// pieces permuted within each row by the row's number modulo 8: the "128-byte swizzle" of the PTX
// manual, section on wgmma. Element (r, c) of a result is in the registers of one thread:
// ResultPlace says which.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "ops/cuda/cluster.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/shared_tiles.cuh"

namespace plimsoll::ops {

inline constexpr int kWarpgroup = 128;
inline constexpr int kOperandTile = 64 * 64 * 2;  // bytes

// Rows and columns of this thread's 32 values of a 64 × 64 result.
struct ResultPlace {
  __device__ ResultPlace()
      : row(static_cast<int>(threadIdx.x % kWarpgroup / 32 * 16 + threadIdx.x % 32 / 4)),
        column(static_cast<int>(threadIdx.x % 4 * 2)) {}
  __device__ int Row(int i) const { return row + i / 2 % 2 * 8; }
  __device__ int Column(int i) const { return column + i / 4 * 8 + i % 2; }

  int row, column;
};

// The offset of piece `piece` (16 bytes) of row `row` within a tile.
__device__ inline uint32_t PieceOffset(int row, int piece) {
  return static_cast<uint32_t>(row * 128 + ((piece ^ (row & 7)) << 4));
}

// Waits until at most kPending groups of this thread's copies are in flight, and makes the finished
// ones visible to the tensor cores. A barrier must follow.
template <int kPending>
__device__ void WaitForCopies() {
  WaitForOwnCopies<kPending>();
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

// The tensor cores' descriptor for a tile at this address.
__device__ inline uint64_t OperandDescriptor(uint32_t address) {
  constexpr uint64_t kEightRows = 1024 >> 4;
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | kEightRows << 32 | kEightRows << 16 | (address & 0x3FFFF) >> 4;
}

__device__ inline void ProductsBegin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ inline void CommitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
// Waits until at most kPending groups of products are in flight. `d` must be the result of a
// finished group.
template <int kPending, int kPieces>
__device__ void WaitForProducts(float (&d)[kPieces][32]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
  // Tells the compiler that the registers change here.
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
    for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[piece][i])::"memory");
  }
}
template <int kPending>
__device__ void WaitForProducts(float (&d)[32]) {
  WaitForProducts<kPending, 1>(reinterpret_cast<float(&)[1][32]>(d));
}

#define PLIMSOLL_RESULT(d)                                                                        \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),    \
      "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),  \
      "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),  \
      "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define PLIMSOLL_RESULT_NAMES                                                                   \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"

// d = (add ? d : 0) + a·bᵀ for 16 columns of the tiles a and b; transposed: aᵀ·b for 16 rows.
template <typename T, bool kTransposed = false>
__device__ void MultiplyShared(float (&d)[32], uint64_t a, uint64_t b, bool add) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " PLIMSOLL_RESULT_NAMES
        ", %32, %33, p, 1, 1, %35, %35;\n}\n"
        : PLIMSOLL_RESULT(d)
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(static_cast<int>(kTransposed)));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " PLIMSOLL_RESULT_NAMES
        ", %32, %33, p, 1, 1, %35, %35;\n}\n"
        : PLIMSOLL_RESULT(d)
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(static_cast<int>(kTransposed)));
  }
}

// d += a·b for 16 columns of a, in registers, and 16 rows of the tile b.
template <typename T>
__device__ void MultiplyRegisters(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " PLIMSOLL_RESULT_NAMES
                 ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
                 : PLIMSOLL_RESULT(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " PLIMSOLL_RESULT_NAMES
                 ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
                 : PLIMSOLL_RESULT(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
}

// d = (add ? d : 0) + a·bᵀ for 16 columns of a, in registers, and of the tile b.
template <typename T>
__device__ void MultiplyHeld(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool add) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " PLIMSOLL_RESULT_NAMES
        ", {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}\n"
        : PLIMSOLL_RESULT(d)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " PLIMSOLL_RESULT_NAMES
        ", {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}\n"
        : PLIMSOLL_RESULT(d)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
  }
}

#undef PLIMSOLL_RESULT
#undef PLIMSOLL_RESULT_NAMES

// d = a·bᵀ over the complete width, which is kPieces adjacent tiles.
template <typename T, int kPieces>
__device__ void StartRowProducts(float (&d)[32], uint32_t a, uint32_t b) {
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    const uint64_t left = OperandDescriptor(a + piece * kOperandTile);
    const uint64_t right = OperandDescriptor(b + piece * kOperandTile);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      MultiplyShared<T>(d, left + k * 2, right + k * 2, piece + k > 0);  // the next 32 bytes
    }
  }
  CommitProducts();
}

// d[piece] += weights·b for each of the kPieces adjacent tiles.
template <typename T, int kPieces>
__device__ void StartWeightedRows(float (&d)[kPieces][32], const uint32_t (&weights)[4][4],
                                  uint32_t b) {
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    const uint64_t right = OperandDescriptor(b + piece * kOperandTile);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      MultiplyRegisters<T>(d[piece], weights[k], right + k * 128);  // the next 16 rows
    }
  }
  CommitProducts();
}

template <typename T>
__device__ float Low(uint32_t two) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __uint_as_float(two << 16);
  } else {
    return __low2float(reinterpret_cast<const __half2&>(two));
  }
}

template <typename T>
__device__ float High(uint32_t two) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __uint_as_float(two & 0xFFFF0000u);
  } else {
    return __high2float(reinterpret_cast<const __half2&>(two));
  }
}

// Packs a 64 × 64 result as the left operand of another product.
template <typename T>
__device__ void PackWeights(const float (&from)[32], uint32_t (&to)[4][4]) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[k][i] = PackTwo<T>(from[k * 8 + i * 2], from[k * 8 + i * 2 + 1]);
  }
}

}  // namespace plimsoll::ops
