// Causal attention of new tokens to all tokens so far, whose keys and values are in a cache: for
// programs that extend texts piece by piece. R texts, W new tokens of each, C tokens of capacity in
// the cache, H query heads, G key-value heads (H a multiple of G), hd values of a head, p the
// position of the first new token.
//
//   keys[r,g,p+i] = k[r,i,g]    values[r,g,p+i] = v[r,i,g]                     for i < W
//   out[r,i,h] = Σ_j P[j] · values[r,g,j],  P = softmax_j(q[r,i,h] · keys[r,g,j] / √hd),
//                                           j ≤ p + i,  g = h·G/H
//
// With a window A, token i sees j > p + i − A only. A scale and a soft cap are those of
// attention.h.
//
//   attention_cached (qkv[R,W,(H+2G)·hd], keys[R,G,C,hd], values[R,G,C,hd], position i32[1])
//                    → out[R,W,H·hd], keys, values
//   attributes: heads (H), kv_heads (G); optional: window (A), scale and softcap, as in attention.h
//
// qkv is packed as in attention.h. All tensors have one float dtype. When the op works in place,
// the caches' other positions stay unchanged; positions from p + W on are never read. A position
// outside [0, C − W] is an InternalError when the op runs. Not differentiable.
#pragma once

#include <cstdint>

#include "graph/builder.h"

namespace plimsoll::ops {

// The type of the caches of keys and of values for a packed qkv of that type.
graph::TensorType CacheType(const graph::TensorType& qkv, int64_t heads, int64_t kv_heads,
                            int64_t capacity);

// For the CUDA kernel: with at most kCachedAttentionFewTokens new tokens, the cache is divided into
// chunks of kCachedAttentionChunk positions, whose results are combined through the workspace.
inline constexpr int64_t kCachedAttentionFewTokens = 16;
inline constexpr int64_t kCachedAttentionChunk = 256;

}  // namespace plimsoll::ops
