// pack      y [N] = the xs, one or more of one floating type, in row-major order one after another,
//           each followed by zeros up to a multiple of 128 elements: ranks sum y in one transfer.
//           A slice of y (ops/data_movement/views.h) is each x again, and aligned like every
//           tensor. Not differentiable.
// stack     y [N] = the xs, one or more scalars, all float32 or all float64. Not differentiable.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace plimsoll::ops {

// The number of elements of y that an x with this many elements takes: 256 bytes in the narrowest
// type, or a multiple.
inline int64_t PackedElements(int64_t elements) { return RoundUp(elements, 128); }

}  // namespace plimsoll::ops
