// 8-bit codes of what an activation or its gradient makes, which itself is never stored.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "graph/op.h"
#include "graph/tensor.h"

namespace plimsoll::ops {

// The op `quantize_activation`, which a fusion emits (ops/fusions.h):
//
//   a (x of gelu, gate_up of swiglu), dy? (of gradients), acc_sums? f32[K], expected f32[N],
//   a_scale? f32[]
//     {of, approximate, dtype, index, a_dtype?} → transposed?, codes?, scale?, sums?, largest?
//     f32[]
//
// With a_scale, `a` are e4m3 codes, in place of dequantize(a, a_scale) {dtype=a_dtype}.
// It is y = OF(a[, dy]), in the type of a (`approximate` is an attribute of GELU), then
//
//   largest = largest_magnitude(y)
//   transposed, codes, scale, sums = quantize(y, largest, acc_sums, expected) {dtype, index}
//
// with the bytes of these three ops. On a GPU there is one exception: where y isn't finite and
// something is expected, `codes` and `transposed` are those of a finite y with the expected
// magnitude, since they are written before the last element is known. `scale` is NaN there all the
// same, and so is every product.

// What `of` may be.
inline constexpr std::array<std::string_view, 4> kQuantizedActivations = {
    "gelu", "gelu_backward", "swiglu", "swiglu_backward"};

inline bool IsQuantizedActivation(std::string_view op) {
  return std::ranges::find(kQuantizedActivations, op) != kQuantizedActivations.end();
}

// The type of a's numbers.
inline graph::TensorType NumbersOfActivation(const graph::TensorType& a,
                                             const graph::Attributes& attributes) {
  if (!graph::IsFloat8(a.dtype)) return a;
  return {graph::ParseDType(attributes.GetWord("a_dtype")).value(), a.shape};
}

// The type of y. `a`: of numbers.
inline graph::TensorType QuantizedActivationType(std::string_view of, const graph::TensorType& a) {
  if (of != "swiglu") return a;
  return {a.dtype, a.shape.WithLast(a.shape.dim(-1) / 2)};
}

}  // namespace plimsoll::ops
