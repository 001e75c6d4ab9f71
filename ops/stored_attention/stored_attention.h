// Attention as a chain of tensors, among them scores and probabilities of T×T values for each head:
// what frameworks do without a blockwise kernel. For comparisons of memory and speed.
//
//   %out = attention(%qkv)
//
// becomes, with B sequences of T tokens, H query heads, G key-value heads, hd values of a head:
//
//   %q, %k, %v     = split_heads(%qkv)          [B,G,(H/G)·T,hd], [B,G,T,hd] twice
//   %scores        = matmul(%q, %kᵀ)            [B,G,(H/G)·T,T]
//   %probabilities = masked_softmax(%scores)    may take the memory of the scores; before it, scale
//                                               and softcap if the scores have a soft cap
//   %dropped       = dropout(%probabilities)    if the attention drops
//   %mixed         = matmul(%probabilities, %v) [B,G,(H/G)·T,hd]
//   %out           = merge_heads(%mixed)        [B,T,H·hd]
//
// The dropout has the attention's key and the attribute "scores": both drop the same. In padding,
// what the attention never reads has to be finite here. The pass runs before amp and autodiff,
// which see these ops as any others. Attention with positions or a window stays as it is.
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

// Whether the program has attention for the pass to change.
bool HasAttention(const graph::Program& program);

}  // namespace plimsoll::ops
