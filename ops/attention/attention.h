// Scaled dot-product attention over packed queries, keys and values, without a T×T matrix.
// B batch, T sequence, H query heads, G key-value heads (H a multiple of G), hd values of a head.
//
//   out[b,i,h] = Σ_j P[i,j] · v[b,j,g],   P[i,·] = softmax_j(q[b,i,h] · k[b,j,g] / √hd),  g = h·G/H
//
// Causal: j ≤ i only. With lengths, row b consists of its first lengths[b] tokens. The others are
// padding: no token sees them, and their own results and gradients are zero. With positions, a row
// holds several documents, and no query sees another document: positions[b,i] is the position of
// token i in its document, 0, 1, 2, …, and query i sees j ≥ i − positions[b,i] only. With a window
// W, query i sees j > i − W only (Beltagy et al. 2020, "Longformer"; Mistral's sliding_window).
// Positions and a window need causal. Dropout sets elements of P to zero with probability p and
// scales the others, by the draws that base/dropout_draws.h gives to scores. A scale replaces
// 1/√hd. A soft cap c replaces each scaled score s by c · tanh(s / c), before masking (Gemma Team
// 2024, "Gemma 2", section 2).
// Computed blockwise with an online softmax: Dao 2023, "FlashAttention-2".
//
//   attention           (qkv[B,T,(H+2G)·hd], rng? i32[2], lengths? i32[B], positions? i32[B,T])
//                                                  → out[B,T,H·hd], lse?[B,H,T]
//   attention_backward  (qkv, out, lse, dout, rng?, lengths?, positions?)
//                                                  → dqkv
//   attributes: heads (H), kv_heads (G), causal, dropout, key; optional: window (W), scale and
//   softcap (c); tf32 as in ops/linear/linear.h
//
// qkv holds H query heads, then G key heads, then G value heads. lse is log Σ_j exp of the scores,
// which the backward op needs; lse of padding is 0. A length outside [0, T] is an InternalError on
// a CPU when the op runs; a GPU takes the nearest valid length. The first position of a row is 0;
// every other position is 0 or one more than the previous one. Otherwise a CPU throws InternalError
// when the op runs; a GPU does not check positions, and may then not terminate. A call has lengths
// or positions, not both.
// rng (seed, micro-step) is needed when dropout > 0; the draw of (b, h, i, j) is ScoreDraw(b·H + h,
// i, j, T) of the stream `key`. With the attribute "axis" the ranks of that axis share the heads of
// a model, in rank order, and draw what one rank with all heads would draw: for its head h, rank r
// of R uses b·R·H + r·H + h instead of b·H + h. All tensors have one float dtype; if it has 16
// bits, lse and all intermediate results are f32.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"
#include "graph/op.h"
#include "ops/collectives/communicator.h"

namespace plimsoll::ops {

struct AttentionOptions {
  int64_t heads = 0;     // H
  int64_t kv_heads = 0;  // G; 0 means equal to `heads`
  bool causal = true;
  int64_t window = 0;  // W; 0 means no window
  double dropout = 0;
  double scale = 0;    // the factor of scores; 0: 1/√hd
  double softcap = 0;  // the soft cap of scores; 0 means no cap
};

struct AttentionInputs {
  graph::Value rng = graph::kNoTensor;        // needed only when options.dropout > 0
  graph::Value lengths = graph::kNoTensor;    // for padded rows
  graph::Value positions = graph::kNoTensor;  // for rows that hold several documents
};

graph::Value Attention(graph::Builder& g, graph::Value qkv, const AttentionOptions& options,
                       const AttentionInputs& inputs = {}, std::string_view name = "");

// The attribute "window" of attention's ops; 0 means no window.
int64_t AttentionWindow(const graph::Attributes& attributes);
// The attribute "softcap"; 0 means no cap.
double AttentionSoftcap(const graph::Attributes& attributes);
// The factor of scores: the attribute "scale", or 1/√head without it.
double AttentionScale(const graph::Attributes& attributes, int64_t head);
// Throws InternalError unless the cap is 0 or more and the scale above 0, if the call has them.
void CheckAttentionScores(const graph::OpCall& call);

// The positions of this rank's heads among the heads of all ranks. `ranks`: KernelCall::ranks.
struct HeadsOfRanks {
  HeadsOfRanks(int64_t own, const Communicator* ranks)
      : all(ranks != nullptr ? ranks->size() * own : own),
        first(ranks != nullptr ? ranks->rank() * own : 0) {}

  int64_t all;
  int64_t first;  // this rank's first head
};

// For the CUDA kernels, whose workspaces begin with a float for each query of each head: the bytes
// of `rows` floats, padded to the alignment of the data after them.
inline int64_t AttentionLseBytes(int64_t rows) { return (rows * 4 + 255) / 256 * 256; }

}  // namespace plimsoll::ops
