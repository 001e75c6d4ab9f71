// Llama 1 to 3 and Qwen2: RMSNorm, rotary positions, SwiGLU, grouped-query attention. Qwen2 is
// Llama with a bias on q, k and v.
//   Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models".
//   Grattafiori et al. 2024, "The Llama 3 Herd of Models".
//   Yang et al. 2024, "Qwen2 Technical Report".
//
// B batch, T sequence, D width, H heads, G key-value heads, hd head width, F feed-forward width,
// V vocabulary.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/config_keys.h"
#include "models/language_model.h"
#include "models/layers.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using graph::Scope;
using graph::Value;
using Json = nlohmann::ordered_json;

constexpr const char* kLlama = "llama";
constexpr const char* kQwen2 = "qwen2";

class Llama final : public LanguageModel {
 public:
  explicit Llama(ModelSpec spec) : LanguageModel(std::move(spec)) {}

  std::vector<Sharding> sharding() const override;
  CheckpointTable checkpoint_table() const override;

 protected:
  Outputs Forward(Layers& g, Head head) const override;
};

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

namespace {

// Only attention probabilities have dropout, so that `dropout` is set only with weights, whose
// family a run file need not know.
Setting DropoutOfCheckpoints() {
  Setting dropout = LanguageSetting("dropout");
  dropout.beside_weights = Setting::BesideWeights::kOnlyThere;
  return dropout;
}
Setting AttentionDropout() {
  Setting dropout = WithDefault(LanguageSetting("attention_dropout"), 0.0);
  dropout.derived = "";
  return dropout;
}

std::vector<Setting> OwnSettings(bool bias, double eps, const char* theta) {
  return {LanguageSetting("layers"),
          LanguageSetting("width"),
          LanguageSetting("heads"),
          LanguageSetting("kv_heads"),
          LanguageSetting("head_width"),
          LanguageSetting("ffn_width", "8/3 `width`, rounded up to a multiple of 256"),
          GrowingVocabulary(),
          LanguageSetting("sequence"),
          LanguageSetting("max_sequence"),
          DropoutOfCheckpoints(),
          AttentionDropout(),
          WithDefault(LanguageSetting("tied"), false),
          WithDefault(LanguageSetting("attention_bias"), bias),
          WithDefault(LanguageSetting("norm_eps"), eps),
          WithDefault(LanguageSetting("rope_theta", theta), std::stod(theta)),
          LanguageSetting("rope_type"),
          LanguageSetting("rope_factor"),
          LanguageSetting("init_std")};
}

// Two thirds of 4·width, so that three matrices cost as much as two of 4·width, rounded up to
// a multiple of 256.
void Derive(Settings& settings) {
  settings.Derive("ffn_width", (8 * settings.Int("width") / 3 + 255) / 256 * 256);
}

std::optional<SpecProblem> FindLlamaProblem(const ModelSpec& spec) {
  if (spec.head_width % 2 != 0) {
    return SpecProblem{"head_width", fmt::format("{} is odd, and the rotary embedding turns pairs",
                                                 spec.head_width)};
  }
  if (!(spec.rope_theta > 1)) return SpecProblem{"rope_theta", "must be above 1"};
  constexpr double kMaxRopeFactor = 1e6;
  if (const auto& scaling = spec.rope_scaling) {
    if (!(scaling->factor >= 1 && scaling->factor <= kMaxRopeFactor &&
          scaling->low_freq_factor > 0 && scaling->high_freq_factor > scaling->low_freq_factor &&
          scaling->original_sequence > 0)) {
      return SpecProblem{
          "rope_scaling",
          "needs a factor from 1 to 1e6, 0 < low_freq_factor < high_freq_factor and an "
          "original sequence above 0"};
    }
  }
  return std::nullopt;
}

std::optional<SpecProblem> FindQwen2Problem(const ModelSpec& spec) {
  if (!spec.attention_bias) {
    return SpecProblem{"attention_bias",
                       "qwen2 always has it: leave it out, say true, or use family: llama"};
  }
  return FindLlamaProblem(spec);
}

// What a config.json says about the rotary embedding; an empty member: it says nothing.
struct Rope {
  std::optional<double> theta;
  std::optional<RopeScaling> scaling;

  std::string ScalingText() const {
    if (!scaling) return "none";
    const std::string factor = fmt::format("factor {}", scaling->factor);
    if (scaling->type == RopeScaling::Type::kLinear) return "linear, " + factor;
    return fmt::format("llama3, {}, low {}, high {}, original {}", factor, scaling->low_freq_factor,
                       scaling->high_freq_factor, scaling->original_sequence);
  }
};

void RequireWholeHeads(const JsonObject& object) {
  if (object.GetFloat("partial_rotary_factor", 1.0) != 1.0) {
    object.Fail("partial_rotary_factor", "only 1 is supported");
  }
}

std::optional<RopeScaling> ReadScaling(const JsonObject& rope) {
  const std::string key = rope.Has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.GetString(key, "default");
  if (const std::string old = rope.GetString("type", type); old != type) {
    rope.Fail("rope_type", fmt::format("is \"{}\", but type is \"{}\"; keep one",
                                       formats::Printable(type), formats::Printable(old)));
  }
  if (type == "default") return std::nullopt;
  if (type == "linear") return RopeScaling::Linear(rope.RequireFloat("factor"));
  if (type != "llama3") {
    rope.Fail(key, fmt::format("\"{}\" is not supported, only default, linear and llama3",
                               formats::Printable(type)));
  }
  RopeScaling scaling;
  scaling.factor = rope.RequireFloat("factor");
  scaling.low_freq_factor = rope.RequireFloat("low_freq_factor");
  scaling.high_freq_factor = rope.RequireFloat("high_freq_factor");
  scaling.original_sequence = SizeIn(rope, "original_max_position_embeddings");
  return scaling;
}

// `key` is rope_scaling, as versions of transformers before 5 write it, or rope_parameters.
Rope ReadRopeObject(const JsonObject& config, const char* key) {
  const JsonObject object = config.RequireObject(key);
  for (const std::string& member : object.Keys()) {
    if (object.json().at(member).is_object()) {
      object.Fail(member, "parameters that differ by layer are not supported");
    }
  }
  RequireWholeHeads(object);
  Rope rope;
  if (object.Has("rope_theta")) rope.theta = object.RequireFloat("rope_theta");
  rope.scaling = ReadScaling(object);
  return rope;
}

// All keys that give the same value must agree on it.
void ReadRope(const JsonObject& config, ModelSpec& spec) {
  constexpr double kDefaultTheta = 10000.0;
  RequireWholeHeads(config);
  Rope rope;
  if (config.Has("rope_theta")) rope.theta = config.RequireFloat("rope_theta");
  const char* scaling_key = nullptr;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.Has(key)) continue;
    const Rope other = ReadRopeObject(config, key);
    if (rope.theta && other.theta && *rope.theta != *other.theta) {
      config.RequireObject(key).Fail("rope_theta",
                                     fmt::format("is {}, but rope_theta is {}; keep one of the two",
                                                 *other.theta, *rope.theta));
    }
    if (other.theta) rope.theta = other.theta;
    if (scaling_key != nullptr && other.scaling != rope.scaling) {
      config.Fail(key,
                  fmt::format("asks for another scaling ({}) than {} ({}); keep one of the two",
                              other.ScalingText(), scaling_key, rope.ScalingText()));
    }
    rope.scaling = other.scaling;
    scaling_key = key;
  }
  spec.rope_theta = rope.theta.value_or(kDefaultTheta);
  spec.rope_scaling = rope.scaling;
}

ModelSpec ReadConfig(const JsonObject& config, const char* family) {
  if (const std::string act = config.GetString("hidden_act", "silu"); act != "silu") {
    config.Fail("hidden_act",
                fmt::format("\"{}\" is not supported, only silu", formats::Printable(act)));
  }
  ModelSpec spec;
  spec.family = family;
  spec.layers = SizeIn(config, "num_hidden_layers");
  spec.width = SizeIn(config, "hidden_size");
  spec.heads = SizeIn(config, "num_attention_heads");
  spec.kv_heads = SizeIn(config, "num_key_value_heads", spec.heads);
  if (!config.Has("head_dim") && spec.width % spec.heads != 0) {
    config.Fail("num_attention_heads",
                fmt::format("{} heads do not divide hidden_size {}", spec.heads, spec.width));
  }
  spec.head_width = SizeIn(config, "head_dim", std::max<int64_t>(1, spec.width / spec.heads));
  spec.ffn_width = SizeIn(config, "intermediate_size");
  spec.vocab = SizeIn(config, "vocab_size");
  spec.max_sequence = SizeIn(config, "max_position_embeddings");
  spec.tied = config.GetBool("tie_word_embeddings", false);
  spec.norm_eps = config.GetFloat("rms_norm_eps", 1e-6);
  spec.init_std = config.GetFloat("initializer_range", 0.02);
  spec.dropout = config.GetFloat("attention_dropout", 0.0);
  ReadRope(config, spec);
  if (config.Has("layer_types")) {
    for (const std::string& type : config.RequireStrings("layer_types")) {
      if (type != "full_attention") {
        config.Fail("layer_types", fmt::format("\"{}\" is not supported, only full_attention",
                                               formats::Printable(type)));
      }
    }
  }
  if (family == kLlama) {
    spec.attention_bias = config.GetBool("attention_bias", false);
    RequireSwitch(config, "mlp_bias", false);
    return spec;
  }
  spec.attention_bias = true;
  RequireSwitch(config, "attention_bias", true);
  RequireSwitch(config, "use_sliding_window", false);
  return spec;
}

ModelSpec ReadLlama(const JsonObject& config) { return ReadConfig(config, kLlama); }
ModelSpec ReadQwen2(const JsonObject& config) { return ReadConfig(config, kQwen2); }

void WriteLlama(const ModelSpec& spec, Json& config) {
  const bool qwen2 = spec.family == kQwen2;
  config["architectures"] = {qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM"};
  config["model_type"] = spec.family;
  config["num_hidden_layers"] = spec.layers;
  config["hidden_size"] = spec.width;
  config["num_attention_heads"] = spec.heads;
  config["num_key_value_heads"] = spec.kv_heads;
  config["head_dim"] = spec.head_width;
  config["intermediate_size"] = spec.ffn_width;
  config["max_position_embeddings"] = spec.max_sequence;
  config["vocab_size"] = spec.vocab;
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = spec.norm_eps;
  config["attention_dropout"] = spec.dropout.attention;
  if (qwen2) {
    config["use_sliding_window"] = false;
  } else {
    config["attention_bias"] = spec.attention_bias;
    config["mlp_bias"] = false;
  }
  config["rope_theta"] = spec.rope_theta;
  Json& scaling = config["rope_scaling"];
  if (!spec.rope_scaling) return;
  if (spec.rope_scaling->type == RopeScaling::Type::kLinear) {
    scaling["type"] = "linear";  // versions before 4.43 do not know rope_type
    scaling["factor"] = spec.rope_scaling->factor;
    return;
  }
  scaling["rope_type"] = "llama3";
  scaling["factor"] = spec.rope_scaling->factor;
  scaling["low_freq_factor"] = spec.rope_scaling->low_freq_factor;
  scaling["high_freq_factor"] = spec.rope_scaling->high_freq_factor;
  scaling["original_max_position_embeddings"] = spec.rope_scaling->original_sequence;
}

using formats::Harmless;
using formats::KeyRule;
using formats::Read;

std::vector<KeyRule> LlamaKeys() {
  return {Read("num_hidden_layers"),
          Read("hidden_size"),
          Read("num_attention_heads"),
          Read("num_key_value_heads"),
          Read("head_dim"),
          Read("intermediate_size"),
          Read("max_position_embeddings"),
          Read("hidden_act"),
          Read("rms_norm_eps"),
          Read("attention_dropout"),
          Read("rope_theta"),
          Read("rope_scaling"),
          Read("rope_parameters"),
          Read("partial_rotary_factor"),
          Read("attention_bias"),
          Read("mlp_bias"),
          Read("layer_types"),
          Harmless("is_llama_config", "model_type says it"),
          Harmless("pretraining_tp", "the same products in slices"),
          Harmless("max_sequence_length", "transformers reads max_position_embeddings")};
}

std::vector<KeyRule> Qwen2Keys() {
  std::vector<KeyRule> keys = LlamaKeys();
  std::erase_if(keys, [](const KeyRule& rule) {
    return rule.key == "mlp_bias" || rule.key == "pretraining_tp";
  });
  return Joined(keys, {Read("use_sliding_window"),
                       Harmless("sliding_window", "it means something with use_sliding_window"),
                       Harmless("max_window_layers", "it means something with use_sliding_window"),
                       formats::Refused("use_mrope", "rotary embeddings are of texts alone")});
}

std::unique_ptr<LanguageModel> Make(ModelSpec spec) {
  return std::make_unique<Llama>(std::move(spec));
}

const LanguageFamilyRegistration kLlamaFamily({.name = kLlama,
                                               .settings = OwnSettings(false, 1e-5, "10000"),
                                               .derive = &Derive,
                                               .find_problem = &FindLlamaProblem,
                                               .make = &Make,
                                               .read_config = &ReadLlama,
                                               .write_config = &WriteLlama,
                                               .config_keys = LlamaKeys()});

const LanguageFamilyRegistration kQwen2Family({.name = kQwen2,
                                               .settings = OwnSettings(true, 1e-6, "1000000"),
                                               .derive = &Derive,
                                               .find_problem = &FindQwen2Problem,
                                               .make = &Make,
                                               .read_config = &ReadQwen2,
                                               .write_config = &WriteLlama,
                                               .config_keys = Qwen2Keys()});

}  // namespace
}  // namespace plimsoll::models
