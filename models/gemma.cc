// Gemma 2 and the text part of Gemma 3: RMS norms before and after each branch, which multiply by 1
// + weight; a gated GELU; sliding-window attention in some layers and full attention in the others;
// embeddings times √D; soft caps of scores and logits.
//   Riviere et al. 2024, "Gemma 2: Improving Open Language Models at a Practical Size".
//   Kamath et al. 2025, "Gemma 3 Technical Report".
//
// B batch, T sequence, D width, H heads, G key-value heads, hd head width, F feed-forward width, V
// vocabulary.
#include "models/gemma.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/layers.h"
#include "models/llama.h"

namespace plimsoll::models {
namespace {

using graph::Scope;
using graph::Value;

class Gemma final : public LanguageModel {
 public:
  Gemma(ModelSpec spec, const GemmaParts& parts) : LanguageModel(std::move(spec)), parts_(parts) {}

  std::vector<Sharding> sharding() const override { return LlamaSharding(spec()); }
  CheckpointTable checkpoint_table() const override;

 protected:
  Outputs Forward(Layers& g, Head head) const override;

 private:
  Value AttentionBranch(Layers& g, Value x, int64_t layer, const AttentionMask& mask) const;
  Value Block(Layers& g, Value x, int64_t layer, const AttentionMask& mask) const;

  GemmaParts parts_;
};

// Computes x · rsqrt(mean x² + eps) · (1 + weight).
Value Norm(Layers& g, std::string_view name, Value x, const ModelSpec& spec) {
  return RmsNorm(g, name, x, spec.norm_eps, /*unit_offset=*/true);
}

bool IsWindowed(const ModelSpec& spec, int64_t layer) {
  return spec.windowed.empty() || spec.windowed[static_cast<size_t>(layer)];
}

// The default scale, 1/√hd, is written as 0.
AttentionScores ScoresOf(const ModelSpec& spec) {
  AttentionScores scores = {.softcap = spec.attn_logit_softcapping};
  const int64_t scalar = spec.query_pre_attn_scalar;
  if (scalar != 0 && scalar != spec.head_width) {
    scores.scale = 1 / std::sqrt(static_cast<double>(scalar));
  }
  return scores;
}

Value GeGluBranch(Layers& g, const ModelSpec& spec, Value x) {  // [B,T,D] → [B,T,D]
  const Scope scope(g.builder(), "mlp");
  const Value gate_up =
      Linear(g, "gate_up", x, 2 * spec.ffn_width, {.bias = false, .init_std = spec.init_std});
  return Linear(g, "down", GeGlu(g, gate_up), spec.width,
                {.bias = false, .init_std = spec.init_std});
}

}  // namespace

// [B,T,D] → [B,T,D]. Sliding-window layers may have their own rotary embedding.
Value Gemma::AttentionBranch(Layers& g, Value x, int64_t layer, const AttentionMask& mask) const {
  const ModelSpec& s = spec();
  const Scope scope(g.builder(), "attn");
  const HeadCounts counts = {.heads = s.heads, .kv_heads = s.kv_heads};
  Value a = Linear(g, "qkv", x, (s.heads + 2 * s.kv_heads) * s.head_width,
                   {.bias = s.attention_bias, .init_std = s.init_std});
  if (parts_.qk_norm) a = QkNorm(g, a, counts, s.norm_eps, /*unit_offset=*/true);
  if (s.rope_local_base_freq && IsWindowed(s, layer)) {
    a = Rotary(g, a, counts, *s.rope_local_base_freq, std::nullopt, mask.positions);
  } else {
    a = Rotary(g, a, counts, s.rope_theta, s.rope_scaling, mask.positions);
  }
  a = Attention(g, a, counts, mask, ScoresOf(s));
  return Linear(g, "proj", a, s.width, {.bias = s.attention_bias, .init_std = s.init_std});
}

Value Gemma::Block(Layers& g, Value x, int64_t layer, const AttentionMask& mask) const {
  const ModelSpec& s = spec();
  const Value attention = AttentionBranch(g, Norm(g, "norm_1", x, s), layer, mask);
  x = Add(g, "residual_1", x, Norm(g, "post_norm_1", attention, s));
  const Value mlp = GeGluBranch(g, s, Norm(g, "norm_2", x, s));
  return Add(g, "residual_2", x, Norm(g, "post_norm_2", mlp, s));
}

Model::Outputs Gemma::Forward(Layers& g, Head head) const {
  const Value tokens = g.Tokens("tokens");
  const ModelSpec& s = spec();
  const AttentionMask full = {.positions = DocumentPositions(g, s, head)};
  AttentionMask windowed = full;
  // A window that is at least as long as the text has no effect.
  const int64_t keys = head == Head::kLogits ? s.max_sequence : g.shape(tokens).dim(1);
  if (s.window && *s.window < keys) windowed.window = *s.window;

  const Value table = EmbeddingTable(g, "embed.token", s.vocab, s.width, s.init_std);
  Value x = Embedding(g, "embed", tokens, table);
  x = Scaled(g, "embed_scaled", x, std::sqrt(static_cast<double>(s.width)));
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const Scope scope(g.builder(), "block." + std::to_string(layer));
    x = Block(g, x, layer, IsWindowed(s, layer) ? windowed : full);
  }
  x = Norm(g, "norm", HeadRows(g, x, head), s);
  const Value output = s.tied ? table : EmbeddingTable(g, "head", s.vocab, s.width, s.init_std);
  return LanguageModelHead(g, x, output, head, graph::kNoTensor, s.final_logit_softcapping);
}

// Llama's table, except that the norm called post_attention_layernorm comes before the feed-forward
// network in Llama, and after attention here.
CheckpointTable Gemma::checkpoint_table() const {
  CheckpointTable table = LlamaTable(spec());
  for (CheckpointEntry& entry : table.entries) {
    if (entry.parameter == "block.*.norm_2.weight") {
      entry.tensors = {{"layers.*.pre_feedforward_layernorm.weight"}};
    }
  }
  table.entries.push_back(
      {"block.*.post_norm_1.weight", {{"layers.*.post_attention_layernorm.weight"}}});
  table.entries.push_back(
      {"block.*.post_norm_2.weight", {{"layers.*.post_feedforward_layernorm.weight"}}});
  return table;
}

std::unique_ptr<LanguageModel> MakeGemma(ModelSpec spec, const GemmaParts& parts) {
  return std::make_unique<Gemma>(std::move(spec), parts);
}

}  // namespace plimsoll::models
