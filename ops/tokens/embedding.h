// Token and position embedding, the first layer of a language model.
// B batch, T sequence, D width, V vocabulary, P positions.
//
// The optional input `first`, i32[1], is the position of the first token of each row; an earlier
// run of the program has processed the tokens before it. Absent: 0. With `positions`, i32[B,T], the
// position of a token is positions[b,t], its position in its document (ops/attention/attention.h),
// instead of first + t. A call has only one of the two, and all positions are below P.
//
// With the attribute "axis" (ops/collectives/vocabulary_shard.h) weight has the rows [V/R,D] of
// this rank r of R, for the tokens from r·V/R on. Tokens of other ranks give rows of zeros, and
// only the first rank adds positions: the embedding is Σ over ranks of y, which another op
// computes. dweight is the gradient of this rank's rows. dposition is computed from the complete
// dy, and is the same on all ranks.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// y[b,t] = weight[tokens[b,t]] (+ position[first + t]). tokens i32[B,T] in [0, V), weight [V,D],
// position [P,D] with P ≥ first + T or kNoTensor → y [B,T,D] of weight's dtype. A token outside the
// vocabulary or a position outside the table is an InternalError when the op runs: code that reads
// tokens checks them. With `positions`, the gradient of `position` is that of a lookup of the
// positions, and sums in the order of the tokens.
graph::Value Embedding(graph::Builder& g, graph::Value tokens, graph::Value weight,
                       graph::Value position = graph::kNoTensor,
                       graph::Value positions = graph::kNoTensor, std::string_view name = "");

// dweight[v] = (acc[v] +) Σ dy[b,t] over tokens[b,t] = v, in the order of the tokens. `axis`: the
// embedding's attribute "axis", if it has one.
graph::Value EmbeddingDw(graph::Builder& g, graph::Value tokens, graph::Value dy, int64_t rows,
                         graph::Value acc = graph::kNoTensor, graph::Attributes axis = {},
                         std::string_view name = "");

// dposition[first + t] = (acc[first + t] +) Σ dy[b,t] over b; zero (or acc) in all other rows.
graph::Value PositionDw(graph::Builder& g, graph::Value dy, int64_t rows,
                        graph::Value acc = graph::kNoTensor, graph::Value first = graph::kNoTensor,
                        std::string_view name = "");

}  // namespace plimsoll::ops
