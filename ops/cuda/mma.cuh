// Matrix products of a warp on the tensor cores, float32 sums in registers. Operands have 16 bits
// ("mma.sync.m16n8k16" in PTX), or are float32 rounded to TF32 ("m16n8k8"). Only in code for sm_80
// and later.
//
// A step of the inner dimension is 32 bytes of both operands. Lane l's four values of a 16 × 8
// result are at rows l / 4 (two of them) and l / 4 + 8, columns 2·(l % 4) and the next one.
//
//   operand                      registers of a lane           read by
//   left, 16 rows                4 words                       LoadMatrices
//   right, columns as rows       2 words, for 8 columns        LoadMatrices
//   right, rows as they are      the same                      LoadTransposedMatrices, LoadWord for
//                                                              float32
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "ops/cuda/elements.cuh"
#include "ops/cuda/shared_tiles.cuh"

namespace plimsoll::ops {

template <typename T>
inline constexpr bool kIsTf32 = std::is_same_v<T, float>;

// Elements of the inner dimension in a step.
template <typename T>
inline constexpr int kMmaDepth = 32 / static_cast<int>(sizeof(T));

// d += a·b for 16 rows, 8 columns and one step.
template <typename T>
__device__ void Multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    static_assert(kIsTf32<T>);
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Rounds to the nearest TF32 value. Ties go to even on sm_90, where that is one instruction instead
// of three, otherwise away from zero. kPositive: negative numbers become zero.
template <bool kPositive = false>
__device__ uint32_t RoundTf32(uint32_t bits) {
  uint32_t rounded;
#if __CUDA_ARCH__ >= 900
  if constexpr (kPositive) {
    asm("cvt.rn.relu.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
  }
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
#else
  if constexpr (kPositive) bits = __float_as_uint(fmaxf(__uint_as_float(bits), 0.0f));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
#endif
  return rounded;
}

template <int N>
__device__ void RoundTf32(uint32_t (&words)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) words[i] = RoundTf32(words[i]);
}

}  // namespace plimsoll::ops
