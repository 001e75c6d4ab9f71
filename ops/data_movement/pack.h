// pack      y [N] = the xs, one or more of one floating type, in row-major order one behind the
//           other, with zeros behind each up to a multiple of 128 elements: what ranks sum in one
//           transfer. A slice of y (ops/data_movement/views.h) is each x again, and aligned as
//           every tensor. Not differentiable.
// stack     y [N] = the xs, one or more scalars, all float32 or all float64. Not differentiable.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace plimsoll::ops {

// How many elements of y an x of so many takes: 256 bytes in the narrowest type, or a multiple.
inline int64_t PackedElements(int64_t elements) { return RoundUp(elements, 128); }

}  // namespace plimsoll::ops
