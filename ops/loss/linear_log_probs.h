// The output layer of a language model and the log-probabilities of given targets, by chunks of
// rows as linear_cross_entropy.h does it: the logits never exist as a whole.
//
//   logits     = x[...,D] · weight[V,D]ᵀ (+ bias[V])
//   lse[r]     = log Σ_v exp(logits[r,v])
//   logp[r]    = logits[r, targets[r]] − lse[r];   0 where the target is negative
//   dlogits[r] = dlogp[r] · (onehot(targets[r]) − softmax(logits[r]));   0 where it is negative
//
// targets i32[...] in [..., V); x, weight, bias, dx: one float dtype S; logp, lse, dlogp, dweight,
// dbias and what is added to them: its compute type. A target ≥ V is an InternalError when the op
// runs. dlogits are rounded to S, as they are operands of two products.
//
//   linear_log_probs           (x, weight, targets, bias?) → logp[...], lse?[rows]
//   linear_log_probs_backward  (x, weight, targets, lse, dlogp[...], acc_weight?, bias?, acc_bias?,
//                               rng?) → dx?[...,D], dweight?[V,D], dbias?[V]
//
// The attributes "axis", "low_gradient" and "softcap" mean what they mean for linear_cross_entropy:
// weight, bias and their gradients then have this rank's rows of the vocabulary, logp and lse are
// those of the whole one, and dx is this rank's part of a sum; dweight and acc_weight are bf16.
//
// On a GPU logits are stored, or exponentials in their place, as linear_cross_entropy.h says; a
// target ≥ V makes its row's logp NaN. A program with these ops can be planned for a GPU, and is
// refused before its first step, until their kernels have run on one (preference_loss.cc).
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// logp.
graph::Value LinearLogProbs(graph::Builder& g, graph::Value x, graph::Value weight,
                            graph::Value targets, graph::Value bias = graph::kNoTensor,
                            std::string_view name = "", double softcap = 0);

}  // namespace plimsoll::ops
