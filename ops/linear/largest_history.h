// The largest magnitudes that tensors had in past steps, from which the scales of their codes are
// made: NVIDIA's Transformer Engine calls it `DelayedScaling`.
#pragma once

#include "graph/builder.h"

namespace plimsoll::ops {

// The op `commit_largest`, at the end of a step: a carried state takes the largest magnitudes that
// the step found.
//
//   expected f32[N], pending f32[N], history f32[W, N], count i32[]; apply? i32[]  {margin}
//     → expected, history, in place
//
// Row count mod W of `history` becomes `pending`, and `expected` the largest number of each column,
// times `margin`; NaN stays. If `apply` is 0, both stay unchanged. Magnitudes have no sign.
void CommitLargest(graph::Builder& g, graph::Value expected, graph::Value pending,
                   graph::Value history, graph::Value count, graph::Value apply, double margin);

}  // namespace plimsoll::ops
