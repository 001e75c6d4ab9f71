// The scratch memory of quantize's kernel on a GPU: partial sums of columns.
#pragma once

#include <cstdint>

#include "graph/op.h"

namespace plimsoll::ops {

inline constexpr int64_t kQuantizeTileRows = 128;  // that a thread block casts, and sums by columns

inline int64_t QuantizeTiles(int64_t rows) {
  return (rows + kQuantizeTileRows - 1) / kQuantizeTileRows;
}

inline int64_t QuantizeWorkspace(const graph::OpCall& call) {
  if (!call.has_output(3)) return 0;
  const graph::Shape& x = call.input(0).shape;
  return QuantizeTiles(x.rows()) * x.dim(-1) * static_cast<int64_t>(sizeof(float));
}

}  // namespace plimsoll::ops
