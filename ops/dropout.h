// Dropout. Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting",
// 2014, in the "inverted" form: kept elements are scaled up.
//
//   dropout (x, rng i32[2]) → y      attributes: p, key, scores? (absent: false)
//
// y[i] = 0 with probability p, else x[i] times the rule's keep_scale (base/dropout_draws.h), x of
// any shape. rng is (seed, micro-step). The draw of element i is draw i of the Philox stream of
// `rng` and the attribute "key", so that nothing is saved: the gradient is the same op on dy.
// With scores, x[…, n·T, T] consists of T × T matrices; the elements of matrix r have the draws
// that ScoreDraw gives to row r, so that the op drops what attention with the same key drops.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// 0 ≤ p < 1; p = 0 gives x itself and emits nothing.
graph::Value Dropout(graph::Builder& g, graph::Value x, graph::Value rng, double p,
                     std::string_view name = "");

inline bool DropsScores(const graph::Attributes& attributes) {
  return attributes.Has("scores") && attributes.GetBool("scores");
}

}  // namespace plimsoll::ops
