// Attention as a chain of ops that store scores and probabilities, T×T values for each head, as
// frameworks do without a blockwise kernel. For comparisons of memory and speed.
//
//   %out = attention(%qkv)
//
// becomes, with B sequences of T tokens, H query heads, G key-value heads, hd values of a head:
//
//   %q, %k, %v     = split_heads(%qkv)          [B,G,(H/G)·T,hd], [B,G,T,hd] twice
//   %scores        = matmul(%q, %kᵀ)            [B,G,(H/G)·T,T]
//   %probabilities = masked_softmax(%scores)    may take the memory of the scores; before it, scale
//                                               and softcap if the scores have a soft cap
//   %dropped       = dropout(%probabilities)    if the attention has dropout
//   %mixed         = matmul(%probabilities, %v) [B,G,(H/G)·T,hd]
//   %out           = merge_heads(%mixed)        [B,T,H·hd]
//
// The dropout has the attention's key and the attribute "scores": both drop the same elements. Here
// values in padding must be finite; the attention op never reads them. The pass runs before amp and
// autodiff, which treat these ops like any others. Attention with positions or a window stays.
#pragma once

#include <string_view>

#include "graph/pass.h"

namespace plimsoll::ops {

class StoredAttention : public graph::Pass {
 public:
  std::string_view name() const override { return "stored_attention"; }
  graph::Contract contract() const override {
    return {.spoils = graph::FactsFrom(graph::Fact::kTyped)};
  }
  graph::PassResult Run(graph::Program& program) override;
};

// Whether the program has attention that the pass would change.
bool HasAttention(const graph::Program& program);

}  // namespace plimsoll::ops
