// Transposes a square of vector registers. It has internal linkage, like packed_gemm_kernels_impl.h
// and attention_loops_kernels_impl.h, which use it and give the reason.
#pragma once

#include <cstddef>
#include <utility>

namespace plimsoll::cpu::internal {
namespace {

template <typename V, int kBlock, size_t... kLane>
inline __attribute__((always_inline)) void SwapBlocks(typename V::Reg& x, typename V::Reg& y,
                                                      std::index_sequence<kLane...>) {
  constexpr int kWidth = V::kWidth;
  // Lane l of the first result takes x where bit kBlock of l is clear, else y from kBlock lower.
  const typename V::Reg low =
      __builtin_shufflevector(x, y, ((kLane & kBlock) == 0 ? kLane : kLane - kBlock + kWidth)...);
  const typename V::Reg high =
      __builtin_shufflevector(x, y, ((kLane & kBlock) == 0 ? kLane + kBlock : kLane + kWidth)...);
  x = low;
  y = high;
}

// Swaps ever larger blocks: 1, 2, 4, …
template <typename V, int kBlock = 1>
inline __attribute__((always_inline)) void TransposeRegisters(typename V::Reg (&rows)[V::kWidth]) {
  if constexpr (kBlock < V::kWidth) {
#pragma GCC unroll 16
    for (int i = 0; i < V::kWidth; ++i) {
      if ((i & kBlock) == 0) {
        SwapBlocks<V, kBlock>(rows[i], rows[i + kBlock], std::make_index_sequence<V::kWidth>());
      }
    }
    TransposeRegisters<V, 2 * kBlock>(rows);
  }
}

}  // namespace
}  // namespace plimsoll::cpu::internal
