// Scratch memory that a matrix product on a GPU may use: known without a GPU, so that plans can be
// made anywhere.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

// Workspace of one product (ops/cuda/products/gemm.h). Sums over a long inner dimension are split
// into parts that are kept here until they are added; cuBLASLt on Hopper needs no more.
inline constexpr int64_t kGemmWorkspaceBytes = int64_t{32} << 20;

}  // namespace plimsoll::ops
