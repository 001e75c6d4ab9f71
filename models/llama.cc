// Llama 1 to 3, and the forward pass that Qwen2, Qwen3, Mistral and Phi-3 share with it: RMSNorm,
// rotary positions, SwiGLU, grouped-query attention.
//   Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models".
//   Grattafiori et al. 2024, "The Llama 3 Herd of Models".
//
// B batch, T sequence, D width, H heads, G key-value heads, hd head width, F feed-forward width,
// V vocabulary.
#include "models/llama.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/config_keys.h"
#include "models/layers.h"
#include "models/llama_config.h"
#include "models/rope_config.h"

namespace plimsoll::models {
namespace {

using graph::Scope;
using graph::Value;

class Llama final : public LanguageModel {
 public:
  Llama(ModelSpec spec, const LlamaParts& parts) : LanguageModel(std::move(spec)), parts_(parts) {}

  std::vector<Sharding> sharding() const override { return LlamaSharding(spec()); }
  CheckpointTable checkpoint_table() const override {
    return LlamaTable(spec(), parts_.packed_tensors);
  }

 protected:
  Outputs Forward(Layers& g, Head head) const override;

 private:
  LlamaParts parts_;
};

Value AttentionBranch(Layers& g, const ModelSpec& spec, const LlamaParts& parts, Value x,
                      const AttentionMask& mask) {  // [B,T,D] → [B,T,D]
  const Scope scope(g.builder(), "attn");
  const HeadCounts counts = {.heads = spec.heads, .kv_heads = spec.kv_heads};
  Value a = Linear(g, "qkv", x, (spec.heads + 2 * spec.kv_heads) * spec.head_width,
                   {.bias = spec.attention_bias, .init_std = spec.init_std});
  if (parts.qk_norm) a = QkNorm(g, a, counts, spec.norm_eps);
  a = Rotary(g, a, counts, spec.rope_theta, spec.rope_scaling, mask.positions, spec.rotary_width);
  a = Attention(g, a, counts, mask);
  return Linear(g, "proj", a, spec.width,
                {.bias = spec.attention_bias && parts.projection_bias, .init_std = spec.init_std});
}

Value FeedForwardBranch(Layers& g, const ModelSpec& spec, Value x) {  // [B,T,D] → [B,T,D]
  const Scope scope(g.builder(), "mlp");
  const Value gate_up =
      Linear(g, "gate_up", x, 2 * spec.ffn_width, {.bias = false, .init_std = spec.init_std});
  return Linear(g, "down", SwiGlu(g, gate_up), spec.width,
                {.bias = false, .init_std = spec.init_std});
}

Value Block(Layers& g, const ModelSpec& spec, const LlamaParts& parts, Value x,
            const AttentionMask& mask) {
  x = Add(g, "residual_1", x,
          AttentionBranch(g, spec, parts, RmsNorm(g, "norm_1", x, spec.norm_eps), mask));
  return Add(g, "residual_2", x,
             FeedForwardBranch(g, spec, RmsNorm(g, "norm_2", x, spec.norm_eps)));
}

// A window that is at least as long as the text has no effect.
AttentionMask MaskOf(Layers& g, const ModelSpec& spec, Head head, int64_t sequence) {
  AttentionMask mask = {.positions = DocumentPositions(g, spec, head)};
  const int64_t keys = head == Head::kLogits ? spec.max_sequence : sequence;
  if (spec.window && *spec.window < keys) mask.window = *spec.window;
  return mask;
}

}  // namespace

Model::Outputs Llama::Forward(Layers& g, Head head) const {
  const Value tokens = g.Tokens("tokens");
  const ModelSpec& s = spec();
  const AttentionMask mask = MaskOf(g, s, head, g.shape(tokens).dim(1));
  const Value table = EmbeddingTable(g, "embed.token", s.vocab, s.width, s.init_std);
  Value x = Embedding(g, "embed", tokens, table);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const Scope scope(g.builder(), "block." + std::to_string(layer));
    x = Block(g, s, parts_, x, mask);
  }
  x = RmsNorm(g, "norm", HeadRows(g, x, head), s.norm_eps);
  const Value output = s.tied ? table : EmbeddingTable(g, "head", s.vocab, s.width, s.init_std);
  return LanguageModelHead(g, x, output, head);
}

std::vector<Sharding> LlamaSharding(const ModelSpec& spec) {
  const int64_t q = spec.heads * spec.head_width;
  const int64_t kv = spec.kv_heads * spec.head_width;
  const int64_t ffn = spec.ffn_width;
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

CheckpointTable LlamaTable(const ModelSpec& spec, bool packed_tensors) {
  const int64_t q = spec.heads * spec.head_width;
  const int64_t kv = spec.kv_heads * spec.head_width;
  const int64_t ffn = spec.ffn_width;
  const auto rows = [&](const char* packed, std::vector<CheckpointTensor> modules) {
    return packed_tensors ? std::vector<CheckpointTensor>{{packed}} : modules;
  };
  CheckpointTable table = {
      .prefix = "model.",
      .entries =
          {
              {"embed.token.weight", {{"embed_tokens.weight"}}},
              {"block.*.norm_1.weight", {{"layers.*.input_layernorm.weight"}}},
              {"block.*.attn.qkv.weight", rows("layers.*.self_attn.qkv_proj.weight",
                                               {{"layers.*.self_attn.q_proj.weight", q},
                                                {"layers.*.self_attn.k_proj.weight", kv},
                                                {"layers.*.self_attn.v_proj.weight", kv}})},
              {"block.*.attn.qkv.bias",
               {{"layers.*.self_attn.q_proj.bias", q},
                {"layers.*.self_attn.k_proj.bias", kv},
                {"layers.*.self_attn.v_proj.bias", kv}}},
              {"block.*.attn.q_norm.weight", {{"layers.*.self_attn.q_norm.weight"}}},
              {"block.*.attn.k_norm.weight", {{"layers.*.self_attn.k_norm.weight"}}},
              {"block.*.attn.proj.weight", {{"layers.*.self_attn.o_proj.weight"}}},
              {"block.*.attn.proj.bias", {{"layers.*.self_attn.o_proj.bias"}}},
              {"block.*.norm_2.weight", {{"layers.*.post_attention_layernorm.weight"}}},
              {"block.*.mlp.gate_up.weight",
               rows("layers.*.mlp.gate_up_proj.weight", {{"layers.*.mlp.gate_proj.weight", ffn},
                                                         {"layers.*.mlp.up_proj.weight", ffn}})},
              {"block.*.mlp.down.weight", {{"layers.*.mlp.down_proj.weight"}}},
              {"norm.weight", {{"norm.weight"}}},
          },
      .ignored = {"layers.*.self_attn.rotary_emb.inv_freq"},  // computed from rope_theta
  };
  AddHead(spec.tied, table);
  return table;
}

std::unique_ptr<LanguageModel> MakeLlama(ModelSpec spec, const LlamaParts& parts) {
  return std::make_unique<Llama>(std::move(spec), parts);
}

namespace {

ModelSpec ReadLlama(const formats::JsonObject& config) {
  ModelSpec spec = ReadLlamaConfig(config, "llama");
  spec.attention_bias = config.GetBool("attention_bias", false);
  RequireSwitch(config, "mlp_bias", false);
  return spec;
}

void WriteLlama(const ModelSpec& spec, nlohmann::ordered_json& config) {
  WriteLlamaConfig(spec, "LlamaForCausalLM", config);
  config["attention_bias"] = spec.attention_bias;
  config["mlp_bias"] = false;
}

const LanguageFamilyRegistration kLlama({
    .name = "llama",
    .settings = LlamaSettings(/*attention_bias=*/false, /*norm_eps=*/1e-5, "10000"),
    .derive = &DeriveLlama,
    .find_problem = &FindRopeProblem,
    .make = [](ModelSpec spec) { return MakeLlama(std::move(spec), {.projection_bias = true}); },
    .read_config = &ReadLlama,
    .write_config = &WriteLlama,
    .config_keys = Joined(LlamaConfigKeys(),
                          {formats::Read("attention_bias"), formats::Read("mlp_bias"),
                           formats::Harmless("pretraining_tp", "the same products in slices")}),
});

}  // namespace
}  // namespace plimsoll::models
