// Dropout within ops of norms. FuseNormDropout (ops/fusions.h) creates it:
//   forward    the term that is added before a norm is dropped first;
//   backward   the gradient of the norm's input, dropped, is one more result.
// Such an op has the input rng and the attributes "p", "key" and optionally "axis" of the op
// `dropout`. It makes that op's draws wherever it needs the mask, and rounds elements as that op
// does, so that results have the bits of the separate ops.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/op.h"

namespace plimsoll::ops {

// Whether the op has dropout, that is, the input `rng`. If so, throws unless the input and the
// attributes are valid.
bool HasDropout(const graph::OpCall& call, size_t rng);

// The types of all outputs of a norm's backward op: `types`; then the type of the dropped gradient,
// if the op has dropout; then, with the attribute "largest", those of the largest magnitudes
// (graph/op.h). The output of the dropped gradient keeps its index, but must be absent without
// dropout. Throws like HasDropout().
std::vector<graph::TensorType> WithDropped(const graph::OpCall& call, size_t rng,
                                           std::vector<graph::TensorType> types);

}  // namespace plimsoll::ops
