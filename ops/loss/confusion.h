// The confusion matrix of a classifier, and the counts of right and wrong labels in multi-label
// classification.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// Counts of the rows that have a label. A negative label means no label.
struct Confusion {
  graph::Value counts;  // i32[C,C]: the number of rows of class [label] whose largest logit is that
                        // of [class]
  graph::Value right;   // i32[]: the sum of the diagonal
  graph::Value rows;    // i32[]: the number of rows with a label
};

// logits[...,C], labels i32[...] < C. Among equal logits, the first counts as the largest.
Confusion Confuse(graph::Builder& g, graph::Value logits, graph::Value labels,
                  std::string_view name = "");

// Counts of a multi-label classifier. A logit above 0 predicts the label; a target above 1/2 means
// that the sample has it. A NaN target is not counted.
struct LabelCounts {
  graph::Value right;   // i32[]: the number of rows in which every logit predicts its target
  graph::Value rows;    // i32[]: the number of rows with a target
  graph::Value counts;  // i32[C,4]: for each label the numbers of true positives, false positives,
                        // false negatives and true negatives
};

// logits[...,C], targets f32[...,C]. For metrics, which have no gradient.
LabelCounts CountLabels(graph::Builder& g, graph::Value logits, graph::Value targets,
                        std::string_view name = "");

}  // namespace plimsoll::ops
