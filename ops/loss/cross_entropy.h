// Cross-entropy with label smoothing: the loss of a classifier, and the counts of right answers.
// R rows, C classes.
//
//   p = softmax(logits[r]),   ε = label_smoothing
//   wanted[c] = (1 − ε) · (w · [c = targets[r]] + (1 − w) · [c = targets_b[r]]) + ε / C
//   nll[r] = −Σ_c wanted[c] · log p[c]
//   loss   = scale · Σ nll over the rows whose target is not negative
//   dlogits[r,c] = dloss · scale · (p[c] − wanted[c])
//
// Szegedy et al. 2016, section 7; with ε = 0 the cross-entropy. w = weight[r] is the share of the
// first of two labels, as mixed images have them (Zhang et al. 2018, "mixup", section 2); without
// targets_b and weight there is one label, w = 1. logits[...,C] of one float dtype S, targets and
// targets_b i32[...] below C, weight f32[...], scale f32[] (1 / rows of the step that count). loss,
// lse and dloss have S's compute type. A target ≥ C is an InternalError on the CPU and makes the
// loss NaN on a GPU: code that reads targets checks them. A negative targets_b counts as equal to
// targets.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// The second labels of the rows, and the weights of the first labels; kNoTensor: rows have one
// label.
struct SecondLabels {
  graph::Value targets = graph::kNoTensor;
  graph::Value weight = graph::kNoTensor;
};
// Returns the loss.
graph::Value CrossEntropy(graph::Builder& g, graph::Value logits, graph::Value targets,
                          graph::Value scale, double label_smoothing = 0,
                          std::string_view name = "", const SecondLabels& second = {});

// Counts of the rows that have a target. A negative target means no target.
struct TopK {
  graph::Value right;  // i32[]: the number of rows in which fewer than k classes have a larger
                       // logit than the target; among equal logits the first class counts as larger
  graph::Value rows;   // i32[]: the number of rows with a target
};
// The counts are for metrics, which have no gradient.
TopK CountTopK(graph::Builder& g, graph::Value logits, graph::Value targets, int64_t k,
               std::string_view name = "");

}  // namespace plimsoll::ops
