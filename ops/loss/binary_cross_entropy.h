// Binary cross-entropy: the loss of telling two classes apart, such as real samples from generated
// ones.
//
//   loss    = weight · Σ (max(x, 0) − x·t + log(1 + e^−|x|)) = −weight · Σ log p
//   dlogits = dloss · weight · (σ(x) − t)
//
// p = σ(x)^t · (1 − σ(x))^(1 − t): the cross-entropy of a logit x with the probability t that the
// sample is of the first class (1, real). Like PyTorch's BCEWithLogitsLoss with reduction="sum".
//
// logits[…] have one float dtype S and any shape; weight f32[] (1 / logits of the step). t is
// either one number for all logits, within [0, 1], as in an adversarial loss (Goodfellow et al.
// 2014; 0.9 smooths the label 1, Salimans et al. 2016, section 3.4), or the constant tensor targets
// f32[…] of the logits' shape. A logit whose target is NaN has no loss and isn't counted. With
// labels i32[B] of logits[B,…], the logits of a row with a negative label have no target, as in
// cross_entropy.h. loss and dloss have S's compute type. Errors: InternalError on shapes that do
// not fit and on t outside [0, 1].
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

struct BinaryCrossEntropy {
  graph::Value loss;
  // For metrics, i32[]. right: the number of logits above 0 with t > 1/2, and of other logits with
  // other t. counted: the number of logits with a target.
  graph::Value right, counted;
};
// If `labels` is kNoTensor, all rows count.
BinaryCrossEntropy BinaryCrossEntropyWithLogits(graph::Builder& g, graph::Value logits,
                                                graph::Value weight, double target,
                                                std::string_view name = "",
                                                graph::Value labels = graph::kNoTensor);
BinaryCrossEntropy BinaryCrossEntropyOfTargets(graph::Builder& g, graph::Value logits,
                                               graph::Value weight, graph::Value targets,
                                               std::string_view name = "",
                                               graph::Value labels = graph::kNoTensor);

}  // namespace plimsoll::ops
