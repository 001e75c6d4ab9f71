// What a classifier takes for what, and what one of several labels (multi-label classification)
// gets right.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// Of rows that have a label; a negative one is none.
struct Confusion {
  graph::Value counts;  // i32[C,C]: rows of the class [label] whose largest logit is [class]
  graph::Value right;   // i32[]: on the diagonal
  graph::Value rows;    // i32[]: all of them
};

// logits[...,C], labels i32[...] < C. Of equal logits the first is the largest.
Confusion Confuse(graph::Builder& g, graph::Value logits, graph::Value labels,
                  std::string_view name = "");

// A logit above 0 says that its sample has the label, a target above 1/2 that it has. A target that
// is NaN counts for nothing.
struct LabelCounts {
  graph::Value right;   // i32[]: rows in which every logit says what its target does
  graph::Value rows;    // i32[]: rows with a target
  graph::Value counts;  // i32[C,4]: of each label the rows that have it and are said to (true
                        // positives), false positives, false negatives, true negatives
};

// logits[...,C], targets f32[...,C]. For metrics, which have no gradient.
LabelCounts CountLabels(graph::Builder& g, graph::Value logits, graph::Value targets,
                        std::string_view name = "");

}  // namespace plimsoll::ops
