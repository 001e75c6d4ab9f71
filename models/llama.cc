// B batch, T sequence, D width, H heads, G key-value heads, hd head width, F feed-forward width,
// V vocabulary.
#include "models/llama.h"

#include <string>

#include "models/layers.h"
#include "models/llama_config.h"

namespace plimsoll::models {
namespace {

using graph::Scope;
using graph::Value;

// Llama's attention_bias adds a bias to the output projection too, Qwen2's does not.
bool ProjectionBias(const ModelSpec& spec) { return spec.attention_bias && spec.family == kLlama; }

Value AttentionBranch(Layers& g, const ModelSpec& spec, Value x) {  // [B,T,D] → [B,T,D]
  const Scope scope(g.builder(), "attn");
  const HeadCounts counts = {.heads = spec.heads, .kv_heads = spec.kv_heads};
  Value a = Linear(g, "qkv", x, (spec.heads + 2 * spec.kv_heads) * spec.head_width,
                   {.bias = spec.attention_bias, .init_std = spec.init_std});
  a = Attention(g, Rotary(g, a, counts, spec.rope_theta, spec.rope_scaling), counts);
  return Linear(g, "proj", a, spec.width,
                {.bias = ProjectionBias(spec), .init_std = spec.init_std});
}

Value FeedForwardBranch(Layers& g, const ModelSpec& spec, Value x) {  // [B,T,D] → [B,T,D]
  const Scope scope(g.builder(), "mlp");
  const Value gate_up =
      Linear(g, "gate_up", x, 2 * spec.ffn_width, {.bias = false, .init_std = spec.init_std});
  return Linear(g, "down", SwiGlu(g, gate_up), spec.width,
                {.bias = false, .init_std = spec.init_std});
}

Value Block(Layers& g, const ModelSpec& spec, Value x) {
  x = Add(g, "residual_1", x, AttentionBranch(g, spec, RmsNorm(g, "norm_1", x, spec.norm_eps)));
  return Add(g, "residual_2", x,
             FeedForwardBranch(g, spec, RmsNorm(g, "norm_2", x, spec.norm_eps)));
}

}  // namespace

Model::Outputs Llama::Forward(Layers& g, Head head) const {
  const Value tokens = g.Tokens("tokens");
  const ModelSpec& s = spec();
  const Value table = EmbeddingTable(g, "embed.token", s.vocab, s.width, s.init_std);
  Value x = Embedding(g, "embed", tokens, table);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const Scope scope(g.builder(), "block." + std::to_string(layer));
    x = Block(g, s, x);
  }
  x = RmsNorm(g, "norm", HeadRows(g, x, head), s.norm_eps);
  const Value output = s.tied ? table : EmbeddingTable(g, "head", s.vocab, s.width, s.init_std);
  return LanguageModelHead(g, x, output, head);
}

std::vector<Sharding> Llama::sharding() const {
  const int64_t q = spec().heads * spec().head_width;
  const int64_t kv = spec().kv_heads * spec().head_width;
  const int64_t ffn = spec().ffn_width;
  return {
      {"embed.token.weight", Sharding::kVocabulary},
      {"block.*.attn.qkv.weight", Sharding::kRows, {q, kv, kv}},
      {"block.*.attn.qkv.bias", Sharding::kRows, {q, kv, kv}},
      {"block.*.attn.proj.weight", Sharding::kColumns},
      {"block.*.mlp.gate_up.weight", Sharding::kRows, {ffn, ffn}},
      {"block.*.mlp.down.weight", Sharding::kColumns},
      {"head.weight", Sharding::kVocabulary},
  };
}

CheckpointTable Llama::checkpoint_table() const {
  const int64_t q = spec().heads * spec().head_width;
  const int64_t kv = spec().kv_heads * spec().head_width;
  const int64_t ffn = spec().ffn_width;
  CheckpointTable table = {
      .prefix = "model.",
      .entries =
          {
              {"embed.token.weight", {{"embed_tokens.weight"}}},
              {"block.*.norm_1.weight", {{"layers.*.input_layernorm.weight"}}},
              {"block.*.attn.qkv.weight",
               {{"layers.*.self_attn.q_proj.weight", q},
                {"layers.*.self_attn.k_proj.weight", kv},
                {"layers.*.self_attn.v_proj.weight", kv}}},
              {"block.*.attn.qkv.bias",
               {{"layers.*.self_attn.q_proj.bias", q},
                {"layers.*.self_attn.k_proj.bias", kv},
                {"layers.*.self_attn.v_proj.bias", kv}}},
              {"block.*.attn.proj.weight", {{"layers.*.self_attn.o_proj.weight"}}},
              {"block.*.attn.proj.bias", {{"layers.*.self_attn.o_proj.bias"}}},
              {"block.*.norm_2.weight", {{"layers.*.post_attention_layernorm.weight"}}},
              {"block.*.mlp.gate_up.weight",
               {{"layers.*.mlp.gate_proj.weight", ffn}, {"layers.*.mlp.up_proj.weight", ffn}}},
              {"block.*.mlp.down.weight", {{"layers.*.mlp.down_proj.weight"}}},
              {"norm.weight", {{"norm.weight"}}},
          },
      .ignored = {"layers.*.self_attn.rotary_emb.inv_freq"},  // follows from rope_theta
  };
  AddHead(spec().tied, table);
  return table;
}

}  // namespace plimsoll::models
