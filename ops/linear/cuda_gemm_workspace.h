// Scratch memory that a matrix product on a GPU may use. Its size is known without a GPU, so that
// plans can be made anywhere.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::ops {

// The workspace of one product (ops/cuda/products/gemm.h). Sums over a long inner dimension are
// split into parts, which are stored here until they are added. cuBLASLt on Hopper needs no more.
inline constexpr int64_t kGemmWorkspaceBytes = int64_t{32} << 20;

// For gradients in bf16 (ops/cuda/products/low_gradient.h):

// The number of rows of a gradient [m,n] that are computed at a time: full tiles of the product,
// and about 32 MiB in float32, which stay in the L2 cache until they are added.
inline int64_t LowGradientRows(int64_t m, int64_t n) {
  constexpr int64_t kBytes = int64_t{32} << 20;
  constexpr int64_t kStep = 256;
  const auto align = [](int64_t rows) { return (rows + kStep - 1) / kStep * kStep; };
  const int64_t row = std::max<int64_t>(1, n) * 4;
  const int64_t most = std::max(kStep, kBytes / row / kStep * kStep);
  const int64_t slices = std::max<int64_t>(1, (m + most - 1) / most);
  return std::min(m, align((m + slices - 1) / slices));
}

inline int64_t LowGradientBytes(int64_t m, int64_t n) {
  constexpr int64_t kAlignment = 256;
  return (LowGradientRows(m, n) * n * 4 + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace plimsoll::ops
