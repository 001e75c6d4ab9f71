// GEMM's workspace for the ops that call it.
#pragma once

#include <cstdint>

#include "ops/cpu/packed_gemm.h"
#include "ops/kernel.h"

namespace plimsoll::ops {

// The bytes for a product of m × k by k × n values whose result is stored as `result`, a floating
// type.
inline int64_t GemmBytes(graph::DType result, int64_t m, int64_t n, int64_t k) {
  int64_t bytes = 0;
  DispatchStored(result, [&]<typename C>() { bytes = cpu::GemmWorkspaceBytes<C>(m, n, k); });
  return bytes;
}

}  // namespace plimsoll::ops
