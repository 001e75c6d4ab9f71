// The scratch memory of quantize's kernel on a GPU: the largest magnitude, then partial sums.
#pragma once

#include <cstdint>

#include "graph/op.h"

namespace plimsoll::ops {

inline constexpr int64_t kLargestBytes = 256;      // of which 4 are used
inline constexpr int64_t kQuantizeTileRows = 128;  // that a thread block casts, and sums by columns

inline int64_t QuantizeTiles(int64_t rows) {
  return (rows + kQuantizeTileRows - 1) / kQuantizeTileRows;
}

inline int64_t QuantizeWorkspace(const graph::OpCall& call) {
  const graph::Shape& x = call.input(0).shape;
  const int64_t sums = QuantizeTiles(x.rows()) * x.dim(-1) * static_cast<int64_t>(sizeof(float));
  return kLargestBytes + (call.has_output(3) ? sums : 0);
}

}  // namespace plimsoll::ops
