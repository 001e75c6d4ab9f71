// The output layer of a language model and the log-probabilities of given targets, by chunks of
// rows as in linear_cross_entropy.h: the logits never exist completely.
//
//   logits     = x[...,D] · weight[V,D]ᵀ (+ bias[V])
//   lse[r]     = log Σ_v exp(logits[r,v])
//   logp[r]    = logits[r, targets[r]] − lse[r];   0 where the target is negative
//   dlogits[r] = dlogp[r] · (onehot(targets[r]) − softmax(logits[r]));   0 where it is negative
//
// targets i32[...] in [..., V); x, weight, bias, dx: one float dtype S; logp, lse, dlogp, dweight,
// dbias and the tensors added to them: its compute type. A target ≥ V is an InternalError when the
// op runs. dlogits are rounded to S, because they are operands of two products.
//
//   linear_log_probs           (x, weight, targets, bias?) → logp[...], lse?[rows]
//   linear_log_probs_backward  (x, weight, targets, lse, dlogp[...], acc_weight?, bias?, acc_bias?,
//                               rng?) → dx?[...,D], dweight?[V,D], dbias?[V]
//
// The attributes "axis", "low_gradient" and "softcap" have the same meaning as for
// linear_cross_entropy. With "axis", weight, bias and their gradients have this rank's rows of the
// vocabulary, logp and lse are those of the full vocabulary, and dx is this rank's addend of a sum.
// With "low_gradient", dweight and acc_weight are bf16.
//
// On a GPU logits, or exponentials instead of them, are stored as linear_cross_entropy.h says; a
// target ≥ V makes its row's logp NaN. A program with these ops can be planned for a GPU. But it is
// refused before its first step, until these kernels have run on a GPU (preference_loss.cc).
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// Returns logp.
graph::Value LinearLogProbs(graph::Builder& g, graph::Value x, graph::Value weight,
                            graph::Value targets, graph::Value bias = graph::kNoTensor,
                            std::string_view name = "", double softcap = 0);

}  // namespace plimsoll::ops
