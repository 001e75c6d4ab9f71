// The scratch memory of the kernels of quantize, quantize_activation and quantize_norm on a GPU:
// the largest magnitudes that the latter two find, then partial sums of columns.
#pragma once

#include <cstdint>

#include "graph/op.h"

namespace plimsoll::ops {

inline constexpr int64_t kQuantizeTileRows = 128;  // rows that a thread block casts, and sums by
                                                   // columns

inline int64_t QuantizeTiles(int64_t rows) {
  return (rows + kQuantizeTileRows - 1) / kQuantizeTileRows;
}

inline int64_t QuantizeWorkspace(const graph::OpCall& call) {
  if (!call.has_output(3)) return 0;
  const graph::Shape& x = call.input(0).shape;
  return QuantizeTiles(x.rows()) * x.dim(-1) * static_cast<int64_t>(sizeof(float));
}

// The bytes for two words of largest magnitudes, rounded up so that the data after them is aligned
// like tensors.
inline constexpr int64_t kLargestWordsBytes = 256;

inline int64_t QuantizeActivationWorkspace(const graph::OpCall& call) {
  if (!call.has_output(3)) return kLargestWordsBytes;
  const int64_t columns = call.output(3).shape.dim(0);
  return kLargestWordsBytes +
         QuantizeTiles(call.input(0).shape.rows()) * columns * static_cast<int64_t>(sizeof(float));
}

}  // namespace plimsoll::ops
