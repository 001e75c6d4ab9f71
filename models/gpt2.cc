// GPT-2 and GPT-3: learned positions, pre-norm LayerNorm, GELU, biases everywhere.
//   Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
//   Brown et al. 2020, "Language Models are Few-Shot Learners" (dense attention in all layers).
//
// B batch, T sequence, D width, H heads, F feed-forward width, V vocabulary, P positions.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/config_keys.h"
#include "models/language_model.h"
#include "models/language_settings.h"
#include "models/layers.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using graph::Scope;
using graph::Value;
using Json = nlohmann::ordered_json;

constexpr const char* kName = "gpt2";

class Gpt2 final : public LanguageModel {
 public:
  explicit Gpt2(ModelSpec spec) : LanguageModel(std::move(spec)) {}

  std::vector<Sharding> sharding() const override;
  CheckpointTable checkpoint_table() const override;

 protected:
  Outputs Forward(Layers& g, Head head) const override;
};

// Layers that write to the residual stream are initialised with a smaller std, so that the stream's
// variance does not grow with depth (Radford et al. 2019, section 2.3).
double ResidualStd(const ModelSpec& spec) {
  return spec.init_std / std::sqrt(2.0 * static_cast<double>(spec.layers));
}

// [B,T,D] → [B,T,D]. `positions`: the positions within documents if attention must not cross
// documents, else kNoTensor.
Value AttentionBranch(Layers& g, const ModelSpec& spec, Value x, Value positions) {
  const Scope scope(g.builder(), "attn");
  Value a = Linear(g, "qkv", x, 3 * spec.width, {.init_std = spec.init_std});
  a = Attention(g, a, {.heads = spec.heads, .kv_heads = spec.heads}, {.positions = positions});
  a = Linear(g, "proj", a, spec.width, {.init_std = ResidualStd(spec)});
  return Dropout(g, "dropout", a, g.dropout().hidden);
}

Value FeedForwardBranch(Layers& g, const ModelSpec& spec, Value x) {  // [B,T,D] → [B,T,D]
  const Scope scope(g.builder(), "mlp");
  Value m = Linear(g, "fc", x, spec.ffn_width, {.init_std = spec.init_std});
  m = Gelu(g, m, spec.activation);
  m = Linear(g, "proj", m, spec.width, {.init_std = ResidualStd(spec)});
  return Dropout(g, "dropout", m, g.dropout().hidden);
}

Value Block(Layers& g, const ModelSpec& spec, Value x, Value positions) {
  x = Add(g, "residual_1", x,
          AttentionBranch(g, spec, LayerNorm(g, "norm_1", x, spec.norm_eps), positions));
  return Add(g, "residual_2", x,
             FeedForwardBranch(g, spec, LayerNorm(g, "norm_2", x, spec.norm_eps)));
}

}  // namespace

Model::Outputs Gpt2::Forward(Layers& g, Head head) const {
  const Value tokens = g.Tokens("tokens");
  const ModelSpec& s = spec();
  const Value positions = DocumentPositions(g, s, head);
  const Value table = EmbeddingTable(g, "embed.token", s.vocab, s.width, s.init_std);
  const Value position = EmbeddingTable(g, "embed.position", s.max_sequence, s.width, s.init_std);
  Value x = Dropout(g, "embed.dropout", Embedding(g, "embed", tokens, table, position, positions),
                    g.dropout().embedding);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const Scope scope(g.builder(), "block." + std::to_string(layer));
    x = Block(g, s, x, positions);
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

// GPT-2's linear layers are "Conv1D", whose weight is stored as [in,out].
CheckpointTable Gpt2::checkpoint_table() const {
  const std::vector<int> kTransposed = {1, 0};
  CheckpointTable table = {
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
          },
      .ignored = {"h.*.attn.bias", "h.*.attn.masked_bias"},  // constants of the causal mask
  };
  AddHead(spec().tied, table);
  return table;
}

namespace {

std::vector<Setting> OwnSettings() {
  return {LanguageSetting("layers"),
          LanguageSetting("width"),
          LanguageSetting("heads"),
          LanguageSetting("ffn_width", "4 `width`"),
          GrowingVocabulary(),
          LanguageSetting("sequence"),
          LanguageSetting("max_sequence"),
          LanguageSetting("dropout"),
          LanguageSetting("attention_dropout"),
          LanguageSetting("hidden_dropout"),
          LanguageSetting("embedding_dropout"),
          WithDefault(LanguageSetting("tied"), true),
          LanguageSetting("activation"),
          WithDefault(LanguageSetting("norm_eps"), 1e-5),
          LanguageSetting("init_std")};
}

void Derive(Settings& settings) {
  settings.Derive("ffn_width", 4 * settings.Int("width"));
  settings.Derive("attention_bias", true);
}

std::optional<SpecProblem> FindGpt2Problem(const ModelSpec& spec) {
  if (spec.kv_heads != spec.heads) {
    return SpecProblem{
        "kv_heads", fmt::format("gpt2 has one per head ({}), not {}", spec.heads, spec.kv_heads)};
  }
  if (spec.width % spec.heads != 0) {
    return SpecProblem{"heads",
                       fmt::format("{} heads do not divide the width {}", spec.heads, spec.width)};
  }
  if (spec.head_width != spec.width / spec.heads) {
    return SpecProblem{"head_width", fmt::format("gpt2's is width / heads = {}, not {}",
                                                 spec.width / spec.heads, spec.head_width)};
  }
  if (!spec.attention_bias) {
    return SpecProblem{"attention_bias", "gpt2 always has it: leave it out or say true"};
  }
  if (spec.rope_scaling) {
    return SpecProblem{"rope_scaling", "gpt2 has no rotary embedding: leave it out"};
  }
  return std::nullopt;
}

Activation ReadActivation(const JsonObject& config) {
  const std::string name = config.GetString("activation_function", "gelu_new");
  if (name == "gelu") return Activation::kGeluErf;
  if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_pytorch_tanh") {
    return Activation::kGeluTanh;
  }
  config.Fail("activation_function", fmt::format("\"{}\" is not supported, only gelu and gelu_new",
                                                 formats::Printable(name)));
}

ModelSpec ReadGpt2(const JsonObject& config) {
  RequireSwitch(config, "scale_attn_weights", true);
  RequireSwitch(config, "scale_attn_by_inverse_layer_idx", false);
  RequireSwitch(config, "add_cross_attention", false);
  ModelSpec spec;
  spec.family = kName;
  spec.layers = SizeIn(config, "n_layer");
  spec.width = SizeIn(config, "n_embd");
  spec.heads = SizeIn(config, "n_head");
  spec.kv_heads = spec.heads;
  if (spec.width % spec.heads != 0) {
    config.Fail("n_head", fmt::format("{} heads do not divide n_embd {}", spec.heads, spec.width));
  }
  spec.head_width = spec.width / spec.heads;
  spec.ffn_width = SizeIn(config, "n_inner", 4 * spec.width);
  spec.vocab = SizeIn(config, "vocab_size");
  spec.max_sequence = SizeIn(config, "n_positions");
  spec.tied = config.GetBool("tie_word_embeddings", true);
  spec.attention_bias = true;
  spec.norm_eps = config.GetFloat("layer_norm_epsilon", 1e-5);
  spec.activation = ReadActivation(config);
  spec.init_std = config.GetFloat("initializer_range", 0.02);
  spec.dropout.attention = config.GetFloat("attn_pdrop", 0.1);
  spec.dropout.hidden = config.GetFloat("resid_pdrop", 0.1);
  spec.dropout.embedding = config.GetFloat("embd_pdrop", 0.1);
  return spec;
}

void WriteGpt2(const ModelSpec& spec, Json& config) {
  config["architectures"] = {"GPT2LMHeadModel"};
  config["model_type"] = "gpt2";
  config["n_layer"] = spec.layers;
  config["n_embd"] = spec.width;
  config["n_head"] = spec.heads;
  config["n_inner"] = spec.ffn_width == 4 * spec.width ? Json() : Json(spec.ffn_width);
  config["n_positions"] = spec.max_sequence;
  config["vocab_size"] = spec.vocab;
  config["activation_function"] = spec.activation == Activation::kGeluTanh ? "gelu_new" : "gelu";
  config["layer_norm_epsilon"] = spec.norm_eps;
  config["attn_pdrop"] = spec.dropout.attention;
  config["resid_pdrop"] = spec.dropout.hidden;
  config["embd_pdrop"] = spec.dropout.embedding;
}

std::unique_ptr<LanguageModel> Make(ModelSpec spec) {
  return std::make_unique<Gpt2>(std::move(spec));
}

using formats::Harmless;
using formats::Read;

constexpr const char* kOtherHeads = "heads of other tasks have it";

const std::vector<formats::KeyRule> kConfigKeys = {
    Read("n_layer"),
    Read("n_embd"),
    Read("n_head"),
    Read("n_inner"),
    Read("n_positions"),
    Read("activation_function"),
    Read("layer_norm_epsilon"),
    Read("attn_pdrop"),
    Read("resid_pdrop"),
    Read("embd_pdrop"),
    Read("scale_attn_weights"),
    Read("scale_attn_by_inverse_layer_idx"),
    Read("add_cross_attention"),
    Harmless("n_ctx", "transformers reads n_positions"),
    Harmless("n_special", "a note of the original GPT"),
    Harmless("predict_special_tokens", "a note of the original GPT"),
    Harmless("reorder_and_upcast_attn", "attention is summed in float32 here anyway"),
    Harmless("summary_type", kOtherHeads),
    Harmless("summary_use_proj", kOtherHeads),
    Harmless("summary_activation", kOtherHeads),
    Harmless("summary_proj_to_labels", kOtherHeads),
    Harmless("summary_first_dropout", kOtherHeads),
};

const LanguageFamilyRegistration kFamily({.name = kName,
                                          .settings = OwnSettings(),
                                          .derive = &Derive,
                                          .find_problem = &FindGpt2Problem,
                                          .make = &Make,
                                          .read_config = &ReadGpt2,
                                          .write_config = &WriteGpt2,
                                          .config_keys = kConfigKeys});

}  // namespace
}  // namespace plimsoll::models
