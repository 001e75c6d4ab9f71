// Where a tensor is positive, as one bit for each element. Bit i % 8 of byte i / 8 of a row is 1 if
// the row's element i, as it is stored, is positive or NaN. A row takes complete bytes; the bits
// after its last element are 0.
#pragma once

#include <cstdint>

#include "graph/tensor.h"

namespace plimsoll::ops {

// The bytes of a row with that number of elements.
constexpr int64_t PositiveBytes(int64_t columns) { return (columns + 7) / 8; }

// The bits of a tensor of this shape: u8 [..., ⌈C / 8⌉] for [..., C].
inline graph::TensorType PositiveBits(const graph::Shape& shape) {
  return {graph::DType::kUInt8, shape.WithLast(PositiveBytes(shape.dim(-1)))};
}

}  // namespace plimsoll::ops
