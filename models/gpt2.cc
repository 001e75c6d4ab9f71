// B batch, T sequence, D width, H heads, F feed-forward width, V vocabulary, P positions.
#include "models/gpt2.h"

#include <cmath>
#include <string>

#include "models/layers.h"

namespace plimsoll::models {
namespace {

using graph::Scope;
using graph::Value;

// The branches that write to the residual stream start smaller, so that its variance does not
// grow with depth (Radford et al. 2019, section 2.3).
double ResidualStd(const ModelSpec& spec) {
  return spec.init_std / std::sqrt(2.0 * static_cast<double>(spec.layers));
}

Value AttentionBranch(Layers& g, const ModelSpec& spec, Value x) {  // [B,T,D] → [B,T,D]
  const Scope scope(g.builder(), "attn");
  Value a = Linear(g, "qkv", x, 3 * spec.width, {.init_std = spec.init_std});
  a = Attention(g, a, {.heads = spec.heads, .kv_heads = spec.heads});
  a = Linear(g, "proj", a, spec.width, {.init_std = ResidualStd(spec)});
  return Dropout(g, "dropout", a);
}

Value FeedForwardBranch(Layers& g, const ModelSpec& spec, Value x) {  // [B,T,D] → [B,T,D]
  const Scope scope(g.builder(), "mlp");
  Value m = Linear(g, "fc", x, spec.ffn_width, {.init_std = spec.init_std});
  m = Gelu(g, m, spec.activation);
  m = Linear(g, "proj", m, spec.width, {.init_std = ResidualStd(spec)});
  return Dropout(g, "dropout", m);
}

Value Block(Layers& g, const ModelSpec& spec, Value x) {
  x = Add(g, "residual_1", x, AttentionBranch(g, spec, LayerNorm(g, "norm_1", x, spec.norm_eps)));
  return Add(g, "residual_2", x,
             FeedForwardBranch(g, spec, LayerNorm(g, "norm_2", x, spec.norm_eps)));
}

}  // namespace

Model::Outputs Gpt2::Forward(Layers& g, Head head) const {
  const Value tokens = g.Tokens("tokens");
  const ModelSpec& s = spec();
  const Value table = EmbeddingTable(g, "embed.token", s.vocab, s.width, s.init_std);
  const Value position = EmbeddingTable(g, "embed.position", s.max_sequence, s.width, s.init_std);
  Value x = Dropout(g, "embed.dropout", Embedding(g, "embed", tokens, table, position));
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const Scope scope(g.builder(), "block." + std::to_string(layer));
    x = Block(g, s, x);
  }
  x = LayerNorm(g, "norm", HeadRows(g, x, head), s.norm_eps);
  const Value output = s.tied ? table : EmbeddingTable(g, "head", s.vocab, s.width, s.init_std);
  return LanguageModelHead(g, x, output, head);
}

std::vector<Sharding> Gpt2::sharding() const {
  const int64_t width = spec().width;
  return {
      {"embed.token.weight", Sharding::kVocabulary},
      {"block.*.attn.qkv.weight", Sharding::kRows, {width, width, width}},
      {"block.*.attn.qkv.bias", Sharding::kRows, {width, width, width}},
      {"block.*.attn.proj.weight", Sharding::kColumns},
      {"block.*.mlp.fc.weight", Sharding::kRows},
      {"block.*.mlp.fc.bias", Sharding::kRows},
      {"block.*.mlp.proj.weight", Sharding::kColumns},
      {"head.weight", Sharding::kVocabulary},
  };
}

// GPT-2's layers are "Conv1D", a linear layer whose weight is stored [in,out].
CheckpointTable Gpt2::checkpoint_table() const {
  constexpr bool kTransposed = true;
  return {
      .prefix = "transformer.",
      .entries =
          {
              {"embed.token.weight", {{"wte.weight"}}},
              {"embed.position.weight", {{"wpe.weight"}}},
              {"block.*.norm_1.weight", {{"h.*.ln_1.weight"}}},
              {"block.*.norm_1.bias", {{"h.*.ln_1.bias"}}},
              {"block.*.attn.qkv.weight", {{"h.*.attn.c_attn.weight"}}, kTransposed},
              {"block.*.attn.qkv.bias", {{"h.*.attn.c_attn.bias"}}},
              {"block.*.attn.proj.weight", {{"h.*.attn.c_proj.weight"}}, kTransposed},
              {"block.*.attn.proj.bias", {{"h.*.attn.c_proj.bias"}}},
              {"block.*.norm_2.weight", {{"h.*.ln_2.weight"}}},
              {"block.*.norm_2.bias", {{"h.*.ln_2.bias"}}},
              {"block.*.mlp.fc.weight", {{"h.*.mlp.c_fc.weight"}}, kTransposed},
              {"block.*.mlp.fc.bias", {{"h.*.mlp.c_fc.bias"}}},
              {"block.*.mlp.proj.weight", {{"h.*.mlp.c_proj.weight"}}, kTransposed},
              {"block.*.mlp.proj.bias", {{"h.*.mlp.c_proj.bias"}}},
              {"norm.weight", {{"ln_f.weight"}}},
              {"norm.bias", {{"ln_f.bias"}}},
              {"head.weight", {{"lm_head.weight"}}},
          },
      .ignored = {"h.*.attn.bias", "h.*.attn.masked_bias"},  // the causal mask
  };
}

}  // namespace plimsoll::models
