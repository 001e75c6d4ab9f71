// The scratch memory of quantize's kernel on a GPU: the largest magnitude, then partial sums.
#pragma once

#include <cstdint>

#include "graph/op.h"
#include "ops/reductions/cuda_column_sums.h"

namespace plimsoll::ops {

inline constexpr int64_t kLargestBytes = 256;  // of which 4 are used

inline int64_t QuantizeWorkspace(const graph::OpCall& call) {
  const graph::Shape& x = call.input(0).shape;
  return kLargestBytes + (call.has_output(3) ? ColumnSumsBytes(x.rows(), x.dim(-1)) : 0);
}

}  // namespace plimsoll::ops
