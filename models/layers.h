// Layers: an op together with its parameters, which are named within the builder's scope. The layer
// "qkv" in scope "block.3.attn" has the parameters block.3.attn.qkv.weight and .bias and the result
// block.3.attn.qkv. Everything is float32.
//
// B batch, T sequence, D width, H heads, G key-value heads, hd head width.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/builder.h"
#include "models/forward_pass.h"
#include "models/model.h"
#include "models/model_spec.h"

namespace plimsoll::models {

// A linear layer: x[...,K] → x · weightᵀ + bias, [...,outputs]. The bias starts at 0.
struct LinearOptions {
  bool bias = true;
  double init_std = 0.02;
};
graph::Value Linear(Layers& g, std::string_view name, graph::Value x, int64_t outputs,
                    LinearOptions options);

// Normalizes over the last dimension; the weight starts at 1, the bias at 0. With a unit offset the
// norm multiplies by 1 + weight, and the weight starts at 0.
graph::Value LayerNorm(Layers& g, std::string_view name, graph::Value x, double eps);
graph::Value RmsNorm(Layers& g, std::string_view name, graph::Value x, double eps,
                     bool unit_offset = false);

// Divides a parameter weight[O,…] by its spectral norm (ops/norms/spectral_norm.h). The states
// NAME.u and NAME.v approximate its first singular vectors. In training, each call makes one power
// iteration, starting from the vectors of the previous call, and divides by the result; evaluation
// uses the vectors unchanged. Every micro-step starts from the vectors at the start of the update.
// In a new model the vectors have made 15 iterations, as in PyTorch; they start from equal elements
// instead of random ones, so they only depend on the weight.
graph::Value SpectralNorm(Layers& g, std::string_view name, graph::Value weight);

// The embedding table NAME.weight, [rows,width], of tokens or positions.
graph::Value EmbeddingTable(Layers& g, std::string_view name, int64_t rows, int64_t width,
                            double init_std);
// Looks tokens i32[B,T] up, which gives [B,T,D]: table[token] (+ position[t], or
// position[positions[b,t]]).
graph::Value Embedding(Layers& g, std::string_view name, graph::Value tokens, graph::Value table,
                       graph::Value position = graph::kNoTensor,
                       graph::Value positions = graph::kNoTensor);

// The input "positions", i32[B,T], if a decoder computes a loss and its attention must not cross
// documents. Otherwise kNoTensor; a generated text is a single document.
graph::Value DocumentPositions(Layers& g, const ModelSpec& spec, Head head);

// The number of heads in a packed qkv[B,T,(H+2G)·hd], which has all heads of q, then of k, then of
// v.
struct HeadCounts {
  int64_t heads;
  int64_t kv_heads;
};
// Normalizes each head of q and of k (ops/norms/qk_norm.h). The weights q_norm.weight[hd] and
// k_norm.weight[hd] start at 1, or at 0 with a unit offset.
graph::Value QkNorm(Layers& g, graph::Value qkv, HeadCounts counts, double eps,
                    bool unit_offset = false);
// The rotary embedding of q and k (Su et al. 2021). Rotates the first `width` elements of each head
// (0: all). `positions`: see AttentionMask.
graph::Value Rotary(Layers& g, graph::Value qkv, HeadCounts counts, double theta,
                    const std::optional<RopeScaling>& scaling,
                    graph::Value positions = graph::kNoTensor, int64_t width = 0);
// The keys that a query attends to.
struct AttentionMask {
  bool causal = true;
  int64_t window = 0;  // the number of latest keys, with the query's own; 0: all
  graph::Value lengths = graph::kNoTensor;  // i32[B], the lengths of padded rows
  // i32[B,T], positions within documents; attention does not cross documents.
  graph::Value positions = graph::kNoTensor;
};
// How attention scores are computed from the products of q and k.
struct AttentionScores {
  double scale = 0;    // factor of the scores; 0: 1/√hd
  double softcap = 0;  // 0: no soft cap
};
// Computes attention, [B,T,H·hd]. Attention probabilities have dropout at the pass's rate.
graph::Value Attention(Layers& g, graph::Value qkv, HeadCounts counts, AttentionMask mask = {},
                       AttentionScores scores = {});

graph::Value Gelu(Layers& g, graph::Value x, Activation activation);
graph::Value SwiGlu(Layers& g, graph::Value gate_up);  // [...,2F] → [...,F]
graph::Value GeGlu(Layers& g, graph::Value gate_up);   // uses the tanh approximation of GELU
// Computes factor · x. The factor is rounded to the type in which x is stored.
graph::Value Scaled(Layers& g, std::string_view name, graph::Value x, double factor);
graph::Value Add(Layers& g, std::string_view name, graph::Value a, graph::Value b);
// Applies dropout with probability p, one of the rates in Layers::dropout(). With p = 0, returns x.
graph::Value Dropout(Layers& g, std::string_view name, graph::Value x, double p);
// In training, drops samples of a residual branch with probability p (ops/elementwise/drop_path.h).
graph::Value DropPath(Layers& g, std::string_view name, graph::Value branch, double p);
// The drop-path probability of block `block` of `blocks`. It rises from 0 for the first block to
// `most` for the last (Huang et al. 2016, equation 4, counted as timm does).
double DropPathOf(double most, int64_t block, int64_t blocks);

// Picks one position of each row, given by the input "last": x[B,T,D] → [B,D]. With Head::kLoss,
// returns x.
graph::Value HeadRows(Layers& g, graph::Value x, Head head);
// Computes logits x · tableᵀ (+ bias), and returns them or the loss against the input "targets". If
// the pass learns preferences (ModelSpec::preference), the loss is the preference loss. With a soft
// cap c, logits are c · tanh(logits / c).
Model::Outputs LanguageModelHead(Layers& g, graph::Value x, graph::Value table, Head head,
                                 graph::Value bias = graph::kNoTensor, double softcap = 0);

}  // namespace plimsoll::models
