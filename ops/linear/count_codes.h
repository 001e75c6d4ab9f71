// Counts the values that don't fit the 8-bit type that they are encoded in (ops/linear/quantize.h).
//
// count_codes   (x[…], scale f32[], acc? f32[3]) {dtype, weight} → counts f32[3], in acc's memory
//
// Each count is acc's (0 without acc) plus `weight` times the number of x's elements that are
//   0. saturated: beyond the largest code by more than rounding
//   1. zeroed: not zero, but nearer to 0 than to the smallest code
//   2. overflowed: infinite or NaN
// `scale` is the number whose code is 1.
#pragma once

#include "graph/dtype.h"

namespace plimsoll::ops {

// Limits in units of the scale. Values from `saturated` on would round to a code that the type
// doesn't have. Values up to `zeroed` round to 0; `zeroed` is halfway to the smallest code.
struct CodeRange {
  float saturated, zeroed;
};
constexpr CodeRange RangeOf(graph::DType dtype) {
  return dtype == graph::DType::kFloat8E4M3 ? CodeRange{464, 0x1p-10f} : CodeRange{61440, 0x1p-17f};
}

}  // namespace plimsoll::ops
