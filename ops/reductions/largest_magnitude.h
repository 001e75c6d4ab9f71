// The largest magnitude of a tensor, from which the scale of its 8-bit codes is made
// (ops/linear/code_scale.h).
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// max |x| over all elements → f32[], by the op `largest_magnitude`; x is f32, bf16 or f16. It is an
// integer maximum of the bits of |x| as float32, which keeps infinity and NaN. 0 if x has no
// elements. Not differentiable.
graph::Value LargestMagnitude(graph::Builder& g, graph::Value x, std::string_view name = "");

}  // namespace plimsoll::ops
