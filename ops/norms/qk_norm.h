// Root mean square normalization of each query and key head (QK norm), applied to packed queries
// and keys. Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion Parameters", section
// 2.1, with the norm of Zhang and Sennrich 2019; Hugging Face's Qwen3 calls it q_norm and k_norm.
//
//   qkv[B,T,(H+2G)·hd]: H query heads, then G key heads, then G value heads, hd values each
//   y = x · rstd · weight in each query and key head, rstd = 1 / √(mean of x² over the head + eps)
// Query heads share q_weight[hd], key heads share k_weight[hd]; values pass unchanged. With
// `unit_offset`, y = x · rstd · (1 + weight), as in Gemma 3 (ops/norms/unit_offset.h).
//
// The op also returns rstd[B,T,H+G], for its gradient. With the attribute "axis" the ranks of that
// axis share the heads, and each rank's gradients of the weights are addends of a sum.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

struct QkNormOptions {
  int64_t heads = 0;     // H
  int64_t kv_heads = 0;  // G
  double eps = 1e-6;
  bool unit_offset = false;
};

// Returns y [B,T,(H+2G)·hd]. Throws InternalError on shapes that do not fit.
graph::Value QkNorm(graph::Builder& g, graph::Value qkv, graph::Value q_weight,
                    graph::Value k_weight, const QkNormOptions& options,
                    std::string_view name = "");

}  // namespace plimsoll::ops
