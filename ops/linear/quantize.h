// 8-bit codes of a tensor for matrix products, with one scale (ops/linear/code_scale.h).
#pragma once

#include <cstdint>

#include "graph/dtype.h"

namespace plimsoll::ops {

// The op `quantize`, which passes emit (amp/fp8.h):
//
//   x [..., K], f32, bf16 or f16, of T rows; largest f32[]; acc_sums? f32[K]; expected? f32[N]
//     {dtype, index} → transposed? [K, T16], codes? [..., K], scale? f32[], sums? f32[K]
//
// `dtype` is e4m3 or e5m2. `transposed` has the codes of xᵀ, with each row padded with zeros to a
// multiple of 16. `scale` turns codes into numbers. `sums` are x's column sums, added to acc_sums:
// if x is the gradient of a linear layer's result, they are the gradient of its bias. `largest` is
// x's largest magnitude (ops/reductions/largest_magnitude.h), from which the scale is made. With
// `expected`, the scale is made from its element `index` instead, unless that is 0; larger numbers
// then saturate.
//
// The op `dequantize`:
//
//   codes [...], scale f32[] {dtype} → x [...] in bf16 or f16, each the code's number · scale

// The elements in a row of the transposed codes of a tensor with `rows` rows.
constexpr int64_t TransposedRow(int64_t rows) { return (rows + 15) / 16 * 16; }

// The largest number of the type. Throws InternalError unless it is e4m3 or e5m2.
float LargestCode(graph::DType dtype);

}  // namespace plimsoll::ops
