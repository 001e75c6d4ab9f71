// Dropout. Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting",
// 2014, in the "inverted" form: kept elements are scaled up.
//
//   dropout (x, rng i32[2]) → y      attributes: p, key, scores?, axis?, columns?
//
// y[i] = 0 with probability p, else x[i] times the rule's keep_scale (base/dropout_draws.h); x has
// any shape. rng is (seed, micro-step). The draw of element i is draw i of the Philox stream of
// `rng` and the attribute "key". So nothing is saved: the gradient is the same op on dy.
// With scores, x[…, n·T, T] consists of T × T matrices; the elements of matrix r have the draws
// that ScoreDraw gives to row r, so that the op drops what attention with the same key drops.
// With an axis, x is this rank's part of a tensor that the axis's ranks share, in rank order: a
// part of its first dimension or, with columns, of its last one. Elements have the draws that they
// have in the full tensor, so that ranks drop what one rank would drop. Scores and an axis exclude
// each other.
#pragma once

#include <string_view>

#include "graph/builder.h"
#include "ops/collectives/communicator.h"

namespace plimsoll::ops {

// 0 ≤ p < 1; if p = 0, returns x and emits nothing.
graph::Value Dropout(graph::Builder& g, graph::Value x, graph::Value rng, double p,
                     std::string_view name = "");

inline bool DropsScores(const graph::Attributes& attributes) {
  return attributes.Has("scores") && attributes.GetBool("scores");
}

inline bool DropsPartOfColumns(const graph::Attributes& attributes) {
  return attributes.Has("columns") && attributes.GetBool("columns");
}

// The draws of a rank's part of a tensor: `run` consecutive elements of the part are consecutive in
// the full tensor, too; elements of other ranks follow there. `ranks`: KernelCall::ranks.
struct PartDraws {
  PartDraws(const graph::Shape& part, const graph::Attributes& attributes,
            const Communicator* ranks)
      : run(DropsPartOfColumns(attributes) ? part.dim(-1) : part.elements()),
        step(ranks != nullptr ? run * ranks->size() : run),
        first(ranks != nullptr ? run * ranks->rank() : 0) {}

  // The number of the draw of element i.
  constexpr int64_t Of(int64_t i) const { return i / run * step + first + i % run; }

  int64_t run, step, first;
};

}  // namespace plimsoll::ops
