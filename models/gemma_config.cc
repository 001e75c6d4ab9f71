#include "models/gemma_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/amounts.h"
#include "models/language_model.h"
#include "models/language_settings.h"
#include "models/llama_config.h"
#include "models/rope_config.h"

namespace plimsoll::models {

using formats::Harmless;
using formats::JsonObject;
using formats::Read;
using formats::Refused;

namespace {

constexpr int64_t kWindow = 4096;        // default of transformers' classes
constexpr int64_t kQueryScalar = 256;    // default of transformers' classes
constexpr double kLargestSoftCap = 1e7;  // largest soft cap, also in run files

constexpr const char* kSliding = "sliding_attention";
constexpr const char* kFull = "full_attention";

Setting& SettingOf(std::vector<Setting>& settings, const char* name) {
  return *std::ranges::find(settings, name, &Setting::name);
}

}  // namespace

std::vector<Setting> GemmaSettings(const char* rope_theta, int64_t window_pattern) {
  std::vector<Setting> settings =
      LlamaSettings(/*attention_bias=*/false, /*norm_eps=*/1e-6, rope_theta);
  SettingOf(settings, "tied").default_value = true;
  SettingOf(settings, "ffn_width").derived = "4 `width`";
  settings.push_back(WithDefault(LanguageSetting("window"), kWindow));
  settings.back().derived = "";
  settings.push_back(WithDefault(LanguageSetting("window_pattern"), window_pattern));
  settings.push_back(LanguageSetting("query_pre_attn_scalar"));
  return settings;
}

void DeriveGemma(Settings& settings) {
  settings.Derive("ffn_width", 4 * settings.Int("width"));
  settings.Derive("query_pre_attn_scalar", settings.Int("head_width"));
}

ModelSpec ReadGemmaConfig(const JsonObject& config, const char* family,
                          const GemmaConfigDefaults& defaults) {
  const std::string act = config.GetString("hidden_activation", "gelu_pytorch_tanh");
  if (act != "gelu_pytorch_tanh" && act != "gelu_new") {
    config.Fail("hidden_activation", fmt::format("\"{}\" is not supported, only gelu_pytorch_tanh",
                                                 formats::Printable(act)));
  }
  ModelSpec spec;
  spec.family = family;
  spec.layers = SizeIn(config, "num_hidden_layers");
  spec.width = SizeIn(config, "hidden_size");
  spec.heads = SizeIn(config, "num_attention_heads", 8);
  spec.kv_heads = SizeIn(config, "num_key_value_heads", 4);
  spec.head_width = SizeIn(config, "head_dim", 256);
  spec.ffn_width = SizeIn(config, "intermediate_size");
  spec.vocab = SizeIn(config, "vocab_size", defaults.vocab);
  spec.max_sequence = SizeIn(config, "max_position_embeddings", defaults.max_sequence);
  spec.tied = config.GetBool("tie_word_embeddings", true);
  spec.attention_bias = config.GetBool("attention_bias", false);
  spec.norm_eps = config.GetFloat("rms_norm_eps", 1e-6);
  spec.init_std = config.GetFloat("initializer_range", 0.02);
  spec.dropout = config.GetFloat("attention_dropout", 0.0);
  spec.query_pre_attn_scalar = SizeIn(config, "query_pre_attn_scalar", kQueryScalar);
  if (config.json().contains("sliding_window") && !config.Has("sliding_window")) {
    config.Fail("sliding_window",
                "null is not supported; give the number of keys, and say in layer_types which "
                "layers see all keys (full_attention)");
  }
  spec.window = SizeIn(config, "sliding_window", kWindow);
  spec.final_logit_softcapping =
      ReadSoftCap(config, "final_logit_softcapping", defaults.final_logit_softcapping);
  return spec;
}

std::optional<std::vector<bool>> ReadLayerTypes(const JsonObject& config, int64_t layers) {
  if (!config.Has("layer_types")) return std::nullopt;
  std::vector<bool> windowed;
  for (const std::string& type : config.RequireStrings("layer_types")) {
    if (type != kSliding && type != kFull) {
      config.Fail("layer_types", fmt::format("\"{}\" is not supported, only {} and {}",
                                             formats::Printable(type), kSliding, kFull));
    }
    windowed.push_back(type == kSliding);
  }
  if (std::ssize(windowed) != layers) {
    config.Fail("layer_types",
                fmt::format("has {}, but the model has {}", Counted(windowed.size(), "type"),
                            Counted(layers, "layer")));
  }
  return windowed;
}

double ReadSoftCap(const JsonObject& config, const char* key, double fallback) {
  if (!config.json().contains(key)) return fallback;
  if (!config.Has(key)) return 0;
  const double cap = config.RequireFloat(key);
  if (!(cap > 0 && cap <= kLargestSoftCap)) {
    config.Fail(key, fmt::format("must be above 0 and at most {}, not {}; null: no cap",
                                 kLargestSoftCap, cap));
  }
  return cap;
}

void WriteSoftCap(double cap, const char* key, nlohmann::ordered_json& config) {
  config[key] = cap == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(cap);
}

void WriteGemmaConfig(const ModelSpec& spec, const char* architecture,
                      nlohmann::ordered_json& config) {
  WriteLlamaConfig(spec, architecture, config);
  config.erase("hidden_act");
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["attention_bias"] = spec.attention_bias;
  config["query_pre_attn_scalar"] = spec.query_pre_attn_scalar;
  config["sliding_window"] = *spec.window;
  for (const bool windowed : spec.windowed) {
    config["layer_types"].push_back(windowed ? kSliding : kFull);
  }
  WriteSoftCap(spec.attn_logit_softcapping, "attn_logit_softcapping", config);
  WriteSoftCap(spec.final_logit_softcapping, "final_logit_softcapping", config);
}

std::vector<formats::KeyRule> GemmaConfigKeys() {
  return {Read("num_hidden_layers"),
          Read("hidden_size"),
          Read("num_attention_heads"),
          Read("num_key_value_heads"),
          Read("head_dim"),
          Read("intermediate_size"),
          Read("max_position_embeddings"),
          Read("hidden_activation"),
          Read("rms_norm_eps"),
          Read("attention_dropout"),
          Read("attention_bias"),
          Read("layer_types"),
          Read("sliding_window"),
          Read("query_pre_attn_scalar"),
          Read("final_logit_softcapping"),
          Refused("use_bidirectional_attention",
                  "tokens see earlier ones alone; an encoder is not supported"),
          Harmless("hidden_act", "transformers reads hidden_activation"),
          Harmless("sliding_window_size", "transformers reads sliding_window"),
          Harmless("cache_implementation", "it says how transformers generates"),
          Harmless("max_sequence_length", "transformers reads max_position_embeddings")};
}

std::optional<SpecProblem> FindGemmaProblem(const ModelSpec& spec) {
  if (const auto problem = FindRopeProblem(spec)) return problem;
  if (spec.width % spec.heads != 0) {  // transformers requires this whatever the head width is
    return SpecProblem{"heads", fmt::format("{} heads do not divide the width {}, and transformers "
                                            "has no such {}; use {}",
                                            spec.heads, spec.width, spec.family,
                                            NearestDivisors(spec.width, spec.heads))};
  }
  if (!spec.window) return SpecProblem{"window", "is missing; give the number of keys"};
  if (std::ssize(spec.windowed) != spec.layers) {
    return SpecProblem{"window_pattern",
                       fmt::format("says of {} whether they have a window, "
                                   "but the model has {}",
                                   Counted(spec.windowed.size(), "layer"), spec.layers)};
  }
  if (spec.query_pre_attn_scalar < 1) {
    return SpecProblem{"query_pre_attn_scalar",
                       fmt::format("must be at least 1, not {}", spec.query_pre_attn_scalar)};
  }
  if (spec.rope_local_base_freq && !(*spec.rope_local_base_freq > 1)) {
    return SpecProblem{"rope_local_base_freq", "must be above 1"};
  }
  for (const auto& [field, cap] :
       {std::pair{"attn_logit_softcapping", spec.attn_logit_softcapping},
        std::pair{"final_logit_softcapping", spec.final_logit_softcapping}}) {
    if (cap >= 0 && cap <= kLargestSoftCap) continue;
    return SpecProblem{field, fmt::format("must be from 0 to {}, not {}", kLargestSoftCap, cap)};
  }
  return std::nullopt;
}

}  // namespace plimsoll::models
