// Where elements are positive, as bits (ops/norms/positive_bits.h). A thread has N elements of a
// row, beginning at a multiple of N: one byte for a pack of 8. With fewer, neighbouring threads of
// a warp combine their bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/cuda/elements.cuh"
#include "ops/norms/positive_bits.h"

namespace plimsoll::ops {

// The largest number that is stored as 0: half of the least number above 0.
template <typename T>
__device__ constexpr float LargestZero() {
  if constexpr (std::is_same_v<T, __half>) return 0x1p-25f;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return 0x1p-134f;
  return 0.0f;
}

// Whether a value is positive, or NaN, after it is stored.
template <typename T>
__device__ bool IsPositive(float value) {
  return !(value <= LargestZero<T>());
}

// Whether threads combine their bits to write them: then all threads of a warp must call
// StorePositive.
template <int N>
inline constexpr bool kJoinsBits = N < 8;

// Writes the bits of the elements from `column` on, if `there`.
template <int N>
__device__ void StorePositive(uint8_t* row, int64_t column, bool there, uint32_t bits) {
  static_assert(8 % N == 0);
  if constexpr (kJoinsBits<N>) {
    bits = there ? bits << column % 8 : 0;
#pragma unroll
    for (int other = 1; other < 8 / N; other *= 2) bits |= __shfl_xor_sync(~0u, bits, other);
  }
  const bool first = !kJoinsBits<N> || column % 8 == 0;
  if (there && first) row[column / 8] = static_cast<uint8_t>(bits);
}

// Loads the bits: bit i belongs to element `column` + i.
template <int N>
__device__ uint32_t LoadPositive(const uint8_t* row, int64_t column) {
  const uint32_t byte = row[column / 8];
  return kJoinsBits<N> ? byte >> column % 8 : byte;
}

}  // namespace plimsoll::ops
