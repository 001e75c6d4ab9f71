// The text part of Gemma 3: an RMS norm of each head of q and k, five sliding-window layers for
// each full-attention layer, and a separate rotary embedding for sliding-window layers.
//   Kamath et al. 2025, "Gemma 3 Technical Report".
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "models/config_keys.h"
#include "models/gemma.h"
#include "models/gemma_config.h"
#include "models/language_settings.h"
#include "models/rope_config.h"

namespace plimsoll::models {
namespace {

using formats::Harmless;
using formats::JsonObject;
using formats::Read;
using formats::Refused;

constexpr int64_t kWindowPattern = 6;
constexpr double kGlobalTheta = 1e6;
constexpr double kLocalTheta = 1e4;

// Reads theta, which must be the same at `key` and within rope_parameters if a file has both.
double OneTheta(const JsonObject& config, const char* key, const JsonObject& parameters,
                const std::optional<double>& within, double fallback) {
  if (!config.Has(key)) return within.value_or(fallback);
  const double theta = config.RequireFloat(key);
  if (within && *within != theta) {
    parameters.Fail("rope_theta",
                    fmt::format("is {}, but {} is {}; keep one of the two", *within, key, theta));
  }
  return theta;
}

// Reads rope_theta, rope_scaling and rope_local_base_freq, the keys of transformers before version
// 5, or rope_parameters with an object for each layer type.
void ReadGemma3Rope(const JsonObject& config, ModelSpec& spec) {
  if (config.GetFloat("partial_rotary_factor", 1.0) != 1.0) {
    config.Fail("partial_rotary_factor", "only 1 is supported");
  }
  JsonObject full = config, sliding = config;
  std::optional<double> full_theta, sliding_theta;
  if (config.Has("rope_parameters")) {
    const JsonObject types = config.RequireObject("rope_parameters");
    for (const std::string& type : types.Keys()) {
      if (type != "full_attention" && type != "sliding_attention") {
        types.Fail(type,
                   "is no type of layers; give an object for each of them, full_attention and "
                   "sliding_attention");
      }
    }
    if (types.Has("full_attention")) {
      full = types.RequireObject("full_attention");
      full_theta = ReadRopeParameters(full, spec);
    }
    if (types.Has("sliding_attention")) {
      sliding = types.RequireObject("sliding_attention");
      ModelSpec local = spec;
      sliding_theta = ReadRopeParameters(sliding, local);
      if (local.rope_scaling) {
        sliding.Fail("rope_type", "only default is supported for layers with a window");
      }
    }
  }
  if (config.Has("rope_scaling")) {
    const JsonObject scaling = config.RequireObject("rope_scaling");
    ModelSpec other = spec;
    if (const auto theta = ReadRopeParameters(scaling, other)) {
      if (full_theta && *full_theta != *theta) {
        scaling.Fail("rope_theta", fmt::format("is {}, but rope_parameters.full_attention has {}; "
                                               "keep one of the two",
                                               *theta, *full_theta));
      }
      full = scaling;
      full_theta = theta;
    }
    const bool said = config.Has("rope_parameters") &&
                      config.RequireObject("rope_parameters").Has("full_attention");
    if (said && other.rope_scaling != spec.rope_scaling) {
      config.Fail("rope_scaling",
                  "asks for another scaling than rope_parameters.full_attention; keep one of the "
                  "two");
    }
    spec.rope_scaling = other.rope_scaling;
  }
  spec.rope_theta = OneTheta(config, "rope_theta", full, full_theta, kGlobalTheta);
  spec.rope_local_base_freq =
      OneTheta(config, "rope_local_base_freq", sliding, sliding_theta, kLocalTheta);
}

// transformers reads layer_types since version 4.53; before, it read sliding_window_pattern.
void ReadWindows(const JsonObject& config, ModelSpec& spec) {
  const int64_t pattern = SizeIn(config, "sliding_window_pattern", kWindowPattern);
  spec.windowed = WindowedLayers(spec.layers, pattern);
  const auto types = ReadLayerTypes(config, spec.layers);
  if (!types) return;
  if (config.Has("sliding_window_pattern") && *types != spec.windowed) {
    config.Fail("sliding_window_pattern",
                fmt::format("is {}, but layer_types has other layers without a window; remove the "
                            "one that is wrong",
                            pattern));
  }
  spec.windowed = *types;
}

ModelSpec ReadGemma3(const JsonObject& config) {
  ModelSpec spec =
      ReadGemmaConfig(config, "gemma3_text", {.vocab = 262208, .max_sequence = 131072});
  ReadGemma3Rope(config, spec);
  ReadWindows(config, spec);
  return spec;
}

void WriteGemma3(const ModelSpec& spec, nlohmann::ordered_json& config) {
  WriteGemmaConfig(spec, "Gemma3ForCausalLM", config);
  config["rope_local_base_freq"] = *spec.rope_local_base_freq;
  // transformers merges this object into {"rope_type": "default"}, so it would ignore "type".
  nlohmann::ordered_json& scaling = config["rope_scaling"];
  if (scaling.contains("type")) {
    scaling["rope_type"] = scaling["type"];
    scaling.erase("type");
  }
  for (int64_t pattern = 1; pattern <= spec.layers + 1; ++pattern) {
    if (spec.windowed != WindowedLayers(spec.layers, pattern)) continue;
    config["sliding_window_pattern"] = pattern;
    break;
  }
}

std::vector<Setting> Gemma3Settings() {
  std::vector<Setting> settings = GemmaSettings("1000000", kWindowPattern);
  settings.push_back(WithDefault(LanguageSetting("rope_local_base_freq"), kLocalTheta));
  settings.push_back(WithDefault(LanguageSetting("final_logit_softcapping"), 0.0));
  return settings;
}

const LanguageFamilyRegistration kFamily({
    .name = "gemma3_text",
    .settings = Gemma3Settings(),
    .derive = &DeriveGemma,
    .find_problem = &FindGemmaProblem,
    .make = [](ModelSpec spec) { return MakeGemma(std::move(spec), {.qk_norm = true}); },
    .read_config = &ReadGemma3,
    .write_config = &WriteGemma3,
    .config_keys = Joined(GemmaConfigKeys(),
                          {Read("rope_theta"), Read("rope_scaling"), Read("rope_parameters"),
                           Read("partial_rotary_factor"), Read("rope_local_base_freq"),
                           Read("sliding_window_pattern"),
                           Harmless("original_max_position_embeddings",
                                    "transformers reads it within the parameters of layers"),
                           Refused("attn_logit_softcapping",
                                   "transformers' Gemma 3 caps no scores, whatever it says; "
                                   "remove it, or say null")}),
});

}  // namespace
}  // namespace plimsoll::models
