// How many values don't fit the 8-bit type that they are encoded in (ops/linear/quantize.h).
//
// count_codes   (x[…], scale f32[], acc? f32[3]) {dtype, weight} → counts f32[3], in acc's place
//
// Each count is acc's (0 without one) plus `weight` times the number of x's elements that are
//   0. saturated: beyond the largest code by more than rounding
//   1. zeroed: not zero, but nearer to 0 than to the smallest code
//   2. overflowed: infinite or NaN
// `scale` is the number whose code is 1.
#pragma once

#include "graph/dtype.h"

namespace plimsoll::ops {

// In units of the scale: from `saturated` on a value would be rounded to a code that the type no
// longer has; up to `zeroed` it is rounded to 0, also where it lies in the middle.
struct CodeRange {
  float saturated, zeroed;
};
constexpr CodeRange RangeOf(graph::DType dtype) {
  return dtype == graph::DType::kFloat8E4M3 ? CodeRange{464, 0x1p-10f} : CodeRange{61440, 0x1p-17f};
}

}  // namespace plimsoll::ops
