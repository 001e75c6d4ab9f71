// Softmax over the keys that a query may see, for attention whose scores are tensors.
// B batch, G heads of keys, R = (queries' heads / G)·T rows of queries, T sequence.
//
//   p[b,g,r,j] = exp(scale · s[b,g,r,j]) / Σ_j exp(scale · s[b,g,r,j])   over the j that r sees,
//   else 0 ds         = scale · p ∘ (dp − Σ_j p · dp)
//
//   masked_softmax          (s[B,G,R,T], lengths? i32[B])  → p
//   masked_softmax_backward (p, dp)                        → ds
//   attributes: causal, scale
//
// Row r is the query at position i = r mod T. causal: it sees j ≤ i only. With lengths, row b of
// the batch consists of its first lengths[b] tokens: the others are seen by none, and their own
// rows are zero. A length lies in [0, T]: another one is an InternalError when the op runs, on a
// GPU it counts as the nearest one. One floating dtype; maxima, exponentials and sums are f32 for
// the 16-bit types.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// `lengths`: kNoTensor if there is no padding.
graph::Value MaskedSoftmax(graph::Builder& g, graph::Value scores, graph::Value lengths,
                           bool causal, double scale, std::string_view name = "");

}  // namespace plimsoll::ops
