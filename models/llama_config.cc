#include "models/llama_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "models/config_keys.h"
#include "models/language_model.h"
#include "models/language_settings.h"
#include "models/rope_config.h"

namespace plimsoll::models {

using formats::Harmless;
using formats::JsonObject;
using formats::Read;

namespace {

// Only attention probabilities have dropout. Therefore a run file may set `dropout` only if it also
// names weights; it then need not know the family.
Setting DropoutOfCheckpoints() {
  Setting dropout = LanguageSetting("dropout");
  dropout.with_loaded_weights = Setting::WithLoadedWeights::kOnly;
  return dropout;
}
Setting AttentionDropout() {
  Setting dropout = WithDefault(LanguageSetting("attention_dropout"), 0.0);
  dropout.derived = "";
  return dropout;
}

}  // namespace

std::vector<Setting> LlamaSettings(bool attention_bias, double norm_eps, const char* rope_theta) {
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
          WithDefault(LanguageSetting("attention_bias"), attention_bias),
          WithDefault(LanguageSetting("norm_eps"), norm_eps),
          WithDefault(LanguageSetting("rope_theta", rope_theta), std::stod(rope_theta)),
          LanguageSetting("rope_type"),
          LanguageSetting("rope_factor"),
          LanguageSetting("rope_original_sequence"),
          LanguageSetting("init_std")};
}

// ffn_width is two thirds of 4·width, rounded up to a multiple of 256, so that three matrices cost
// as much as two of 4·width.
void DeriveLlama(Settings& settings) {
  settings.Derive("ffn_width", (8 * settings.Int("width") / 3 + 255) / 256 * 256);
}

ModelSpec ReadLlamaConfig(const JsonObject& config, const char* family,
                          const LlamaConfigDefaults& defaults) {
  if (const std::string act = config.GetString("hidden_act", "silu"); act != "silu") {
    config.Fail("hidden_act",
                fmt::format("\"{}\" is not supported, only silu", formats::Printable(act)));
  }
  ModelSpec spec;
  spec.family = family;
  spec.layers = SizeIn(config, "num_hidden_layers");
  spec.width = SizeIn(config, "hidden_size");
  spec.heads = SizeIn(config, "num_attention_heads");
  // null means as many key-value heads as query heads, even in families where a missing key means
  // another number.
  const bool absent = !config.json().contains("num_key_value_heads");
  spec.kv_heads = SizeIn(config, "num_key_value_heads",
                         absent ? defaults.kv_heads.value_or(spec.heads) : spec.heads);
  if (!config.Has("head_dim") && !defaults.head_width && spec.width % spec.heads != 0) {
    config.Fail("num_attention_heads",
                fmt::format("{} heads do not divide hidden_size {}", spec.heads, spec.width));
  }
  spec.head_width =
      SizeIn(config, "head_dim",
             defaults.head_width.value_or(std::max<int64_t>(1, spec.width / spec.heads)));
  spec.ffn_width = SizeIn(config, "intermediate_size");
  spec.vocab = SizeIn(config, "vocab_size");
  spec.max_sequence = SizeIn(config, "max_position_embeddings");
  spec.tied = config.GetBool("tie_word_embeddings", false);
  spec.norm_eps = config.GetFloat("rms_norm_eps", defaults.norm_eps);
  spec.init_std = config.GetFloat("initializer_range", 0.02);
  spec.dropout = config.GetFloat("attention_dropout", 0.0);
  ReadRope(config, spec, defaults.rope);
  if (config.Has("layer_types")) {
    for (const std::string& type : config.RequireStrings("layer_types")) {
      if (type != "full_attention") {
        config.Fail("layer_types", fmt::format("\"{}\" is not supported, only full_attention",
                                               formats::Printable(type)));
      }
    }
  }
  return spec;
}

void WriteLlamaConfig(const ModelSpec& spec, const char* architecture,
                      nlohmann::ordered_json& config, RopeForm rope) {
  config["architectures"] = {architecture};
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
  WriteRope(spec, config, rope);
}

std::vector<formats::KeyRule> LlamaConfigKeys() {
  return Joined(RopeKeys(),
                {Read("num_hidden_layers"), Read("hidden_size"), Read("num_attention_heads"),
                 Read("num_key_value_heads"), Read("head_dim"), Read("intermediate_size"),
                 Read("max_position_embeddings"), Read("hidden_act"), Read("rms_norm_eps"),
                 Read("attention_dropout"), Read("layer_types"),
                 Harmless("is_llama_config", "model_type says it"),
                 Harmless("max_sequence_length", "transformers reads max_position_embeddings")});
}

}  // namespace plimsoll::models
