// What the settings and the config.json of Gemma 2 and of Gemma 3's text part have in common. A
// family joins its own keys to these.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "base/settings.h"
#include "formats/json.h"
#include "formats/key_rules.h"
#include "models/model_spec.h"

namespace plimsoll::models {

// The settings, with a family's defaults: `rope_theta` as the documentation writes it, and each
// `window_pattern`-th layer without a window.
std::vector<Setting> GemmaSettings(const char* rope_theta, int64_t window_pattern);

// LanguageFamily::derive.
void DeriveGemma(Settings& settings);

// What a key means that config.json doesn't have, as in the family's class of transformers.
struct GemmaConfigDefaults {
  int64_t vocab = 0;
  int64_t max_sequence = 0;
  double final_logit_softcapping = 0;
};

// Reads the keys of GemmaConfigKeys(); the rotary embedding and ModelSpec::windowed are the
// family's own.
ModelSpec ReadGemmaConfig(const formats::JsonObject& config, const char* family,
                          const GemmaConfigDefaults& defaults);

// Reads ModelSpec::windowed from the key layer_types; nullopt: the file has no such key.
std::optional<std::vector<bool>> ReadLayerTypes(const formats::JsonObject& config, int64_t layers);

// A soft cap; null: none, as 0 says in a spec.
double ReadSoftCap(const formats::JsonObject& config, const char* key, double fallback);
void WriteSoftCap(double cap, const char* key, nlohmann::ordered_json& config);

// Writes the keys of ReadGemmaConfig and layer_types; `architecture` is the class of transformers.
void WriteGemmaConfig(const ModelSpec& spec, const char* architecture,
                      nlohmann::ordered_json& config);

// Without those of the rotary embedding.
std::vector<formats::KeyRule> GemmaConfigKeys();

// LanguageFamily::find_problem.
std::optional<SpecProblem> FindGemmaProblem(const ModelSpec& spec);

}  // namespace plimsoll::models
