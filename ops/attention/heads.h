// Packed queries, keys and values [B,T,…] to and from tensors with a matrix [T,hd] for each head,
// as batched matrix products need them. Elements move; nothing is computed. B batch, T sequence, H
// query heads, G key-value heads (H a multiple of G), hd values of a head.
//
//   split_heads          (qkv[B,T,(H+2G)·hd])  → q[B,G,(H/G)·T,hd], k[B,G,T,hd], v[B,G,T,hd]
//   split_heads_backward (dq, dk, dv)          → dqkv
//   merge_heads          (x[B,G,(H/G)·T,hd])   → y[B,T,H·hd]
//   merge_heads_backward (dy)                  → dx
//   attributes: heads (H), kv_heads (G)
//
// The query heads that share a key-value head stand below one another, T rows each: one product
// with its keys makes the scores of all of them. One floating dtype.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

struct SeparateHeads {
  graph::Value q, k, v;
};

SeparateHeads SplitHeads(graph::Builder& g, graph::Value qkv, int64_t heads, int64_t kv_heads,
                         std::string_view name = "");

graph::Value MergeHeads(graph::Builder& g, graph::Value x, int64_t heads, int64_t kv_heads,
                        std::string_view name = "");

}  // namespace plimsoll::ops
