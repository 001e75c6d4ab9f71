// Scratch memory that a matrix product on a GPU may use: known without one, so that plans can be
// made anywhere.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

// Of one product (ops/cuda/products/gemm.h). Sums over a long inner dimension are split into parts
// that lie here until they are added; cuBLASLt on Hopper wants no more.
inline constexpr int64_t kGemmWorkspaceBytes = int64_t{32} << 20;

}  // namespace plimsoll::ops
