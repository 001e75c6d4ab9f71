// Layers: an op together with the parameters it needs, named within the builder's scope. The layer
// "qkv" in scope "block.3.attn" has the parameters block.3.attn.qkv.weight and .bias and the
// result block.3.attn.qkv. Everything is float32.
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

// x[...,K] → x · weightᵀ + bias, [...,outputs]; the bias starts at 0.
struct LinearOptions {
  bool bias = true;
  double init_std = 0.02;
};
graph::Value Linear(Layers& g, std::string_view name, graph::Value x, int64_t outputs,
                    LinearOptions options);

// Normalizes over the last dimension; weight starts at 1, bias at 0. With a unit offset the norm
// multiplies by 1 + weight, and the weight starts at 0.
graph::Value LayerNorm(Layers& g, std::string_view name, graph::Value x, double eps);
graph::Value RmsNorm(Layers& g, std::string_view name, graph::Value x, double eps,
                     bool unit_offset = false);

// A parameter weight[O,…] divided by its spectral norm (ops/norms/spectral_norm.h). States: NAME.u
// and NAME.v, which come near its first singular vectors. Each call for it in training makes one
// power iteration, from the vectors of the call before, and divides by the result; an evaluation
// takes them as they are. Every micro-step begins with the vectors with which the update began.
// A new model's vectors have made 15 iterations, as PyTorch's; they begin with equal elements,
// where PyTorch's begin with random ones, and so follow from the weight alone.
graph::Value SpectralNorm(Layers& g, std::string_view name, graph::Value weight);

// The table NAME.weight, [rows,width], of token or position embeddings.
graph::Value EmbeddingTable(Layers& g, std::string_view name, int64_t rows, int64_t width,
                            double init_std);
// tokens i32[B,T] → [B,T,D]: table[token] (+ position[t], or position[positions[b,t]]).
graph::Value Embedding(Layers& g, std::string_view name, graph::Value tokens, graph::Value table,
                       graph::Value position = graph::kNoTensor,
                       graph::Value positions = graph::kNoTensor);

// The input "positions", i32[B,T], where a decoder keeps documents apart and has a loss; otherwise
// kNoTensor: a text that is generated is one document.
graph::Value DocumentPositions(Layers& g, const ModelSpec& spec, Head head);

// Packed qkv[B,T,(H+2G)·hd]: all heads of q, then of k, then of v.
struct HeadCounts {
  int64_t heads;
  int64_t kv_heads;
};
// Normalizes each head of q and of k (ops/norms/qk_norm.h); the weights q_norm.weight[hd] and
// k_norm.weight[hd] start at 1, with a unit offset at 0.
graph::Value QkNorm(Layers& g, graph::Value qkv, HeadCounts counts, double eps,
                    bool unit_offset = false);
// Turns q and k by their positions (Su et al. 2021), of each head the first `width` elements (0:
// all); `positions`: AttentionMask's.
graph::Value Rotary(Layers& g, graph::Value qkv, HeadCounts counts, double theta,
                    const std::optional<RopeScaling>& scaling,
                    graph::Value positions = graph::kNoTensor, int64_t width = 0);
// Which keys a query sees.
struct AttentionMask {
  bool causal = true;
  int64_t window = 0;                         // the last keys up to its own; 0: all of them
  graph::Value lengths = graph::kNoTensor;    // i32[B], of padded rows
  graph::Value positions = graph::kNoTensor;  // i32[B,T], of documents apart
};
// How scores are made of products of q and k.
struct AttentionScores {
  double scale = 0;    // 0: 1/√hd
  double softcap = 0;  // 0: none
};
// Attention; → [B,T,H·hd]. Drops attention probabilities at the pass's rate.
graph::Value Attention(Layers& g, graph::Value qkv, HeadCounts counts, AttentionMask mask = {},
                       AttentionScores scores = {});

graph::Value Gelu(Layers& g, graph::Value x, Activation activation);
graph::Value SwiGlu(Layers& g, graph::Value gate_up);  // [...,2F] → [...,F]
graph::Value GeGlu(Layers& g, graph::Value gate_up);   // with the tanh form of gelu
// factor · x, the factor rounded to the type in which x is stored.
graph::Value Scaled(Layers& g, std::string_view name, graph::Value x, double factor);
graph::Value Add(Layers& g, std::string_view name, graph::Value a, graph::Value b);
// Drops elements with probability p, one of Layers::dropout(); with p = 0, x itself.
graph::Value Dropout(Layers& g, std::string_view name, graph::Value x, double p);
// In training, drops samples of a residual branch with probability p (ops/elementwise/drop_path.h).
graph::Value DropPath(Layers& g, std::string_view name, graph::Value branch, double p);
// The drop-path probability of block `block` of `blocks`. It rises from 0 for the first block to
// `most` for the last (Huang et al. 2016, equation 4, counted as timm does).
double DropPathOf(double most, int64_t block, int64_t blocks);

// Picks one position per row, given by the input "last": x[B,T,D] → [B,D]. With Head::kLoss, x
// itself.
graph::Value HeadRows(Layers& g, graph::Value x, Head head);
// x · tableᵀ (+ bias): returns the loss against the input "targets", that of preferences where the
// pass learns those (ModelSpec::preference), or the logits. With a soft cap c, logits are
// c · tanh(logits / c).
Model::Outputs LanguageModelHead(Layers& g, graph::Value x, graph::Value table, Head head,
                                 graph::Value bias = graph::kNoTensor, double softcap = 0);

}  // namespace plimsoll::models
