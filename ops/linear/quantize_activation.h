// Fuses an activation, or its gradient, with quantization to 8-bit codes: its result is never
// stored.
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
// With a_scale, `a` has e4m3 codes of the value dequantize(a, a_scale) {dtype=a_dtype}.
// The op computes y = OF(a[, dy]), in the type of a (`approximate` is an attribute of GELU), then
//
//   largest = largest_magnitude(y)
//   transposed, codes, scale, sums = quantize(y, largest, acc_sums, expected) {dtype, index}
//
// with the bits of these three ops. On a GPU there is one exception: if y isn't finite and a
// magnitude is expected, `codes` and `transposed` are those of a finite y with the expected
// magnitude, because they are written before the last element is known. `scale` is NaN in that
// case, too, and so is every product.

// The values that `of` may have.
inline constexpr std::array<std::string_view, 4> kQuantizedActivations = {
    "gelu", "gelu_backward", "swiglu", "swiglu_backward"};

inline bool IsQuantizedActivation(std::string_view op) {
  return std::ranges::find(kQuantizedActivations, op) != kQuantizedActivations.end();
}

// The type of a's numbers, after dequantization if `a` has codes.
inline graph::TensorType NumbersOfActivation(const graph::TensorType& a,
                                             const graph::Attributes& attributes) {
  if (!graph::IsFloat8(a.dtype)) return a;
  return {graph::ParseDType(attributes.GetWord("a_dtype")).value(), a.shape};
}

// The type of y. `a`: the type of a's numbers.
inline graph::TensorType QuantizedActivationType(std::string_view of, const graph::TensorType& a) {
  if (of != "swiglu") return a;
  return {a.dtype, a.shape.WithLast(a.shape.dim(-1) / 2)};
}

}  // namespace plimsoll::ops
