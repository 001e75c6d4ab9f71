// The types that a moment of an update may have (ops/optimizer/optimizer.h), for the definitions of
// ops.
#pragma once

#include <cstddef>

#include "graph/op.h"
#include "ops/encodings.h"

namespace plimsoll::ops {

// Checks that input `moment` is a moment of a parameter of this shape: of type `whole` (f32 or f64)
// or, if that is f32, also bf16 with input `rng`, or codes with input `scales`. Returns the type of
// the scales; without scales, the type of an output without elements. Throws InternalError
// otherwise.
graph::TensorType CheckMoment(const graph::OpCall& call, const graph::TensorType& whole,
                              const Encoding& encoding, size_t moment, size_t scales, size_t rng);

}  // namespace plimsoll::ops
