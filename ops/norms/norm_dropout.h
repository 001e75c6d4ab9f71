// Dropout in ops of norms. FuseNormDropout (ops/fusions.h) puts it there:
//   forward    what is added before a norm is dropped first;
//   backward   the gradient of the norm's input, dropped, is one more result.
// Such an op has the input rng and the attributes of the op `dropout`, "p", "key" and maybe "axis",
// whose draws it makes, wherever the mask is needed. Elements are rounded as that op rounds them,
// so that results have the bits of the separate ops.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/op.h"

namespace plimsoll::ops {

// Whether the op has dropout: whether input `rng` is there. Throws unless it and the attributes
// are right.
bool HasDropout(const graph::OpCall& call, size_t rng);

// The types of all outputs of a norm's backward op: `types`, then that of the dropped gradient
// where there is dropout, and with the attribute "largest" the largest magnitudes (graph/op.h).
// These come after the place of the dropped gradient, which must be left out where there is no
// dropout. Throws as HasDropout().
std::vector<graph::TensorType> WithDropped(const graph::OpCall& call, size_t rng,
                                           std::vector<graph::TensorType> types);

}  // namespace plimsoll::ops
