// The common settings and config.json keys of Gemma 2 and Gemma 3's text part. Each family adds its
// own keys to these.
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

// The settings with a family's defaults. `rope_theta` is the default as documentation writes it;
// each `window_pattern`-th layer has no window.
std::vector<Setting> GemmaSettings(const char* rope_theta, int64_t window_pattern);

// Implements LanguageFamily::derive.
void DeriveGemma(Settings& settings);

// Values for keys that config.json lacks, as in the family's class of transformers.
struct GemmaConfigDefaults {
  int64_t vocab = 0;
  int64_t max_sequence = 0;
  double final_logit_softcapping = 0;
};

// Reads the keys of GemmaConfigKeys(). Each family reads the rotary embedding and
// ModelSpec::windowed itself.
ModelSpec ReadGemmaConfig(const formats::JsonObject& config, const char* family,
                          const GemmaConfigDefaults& defaults);

// Reads ModelSpec::windowed from the key layer_types. Returns nullopt if the file lacks that key.
std::optional<std::vector<bool>> ReadLayerTypes(const formats::JsonObject& config, int64_t layers);

// Reads a soft cap. null means no soft cap, which is 0 in a spec.
double ReadSoftCap(const formats::JsonObject& config, const char* key, double fallback);
void WriteSoftCap(double cap, const char* key, nlohmann::ordered_json& config);

// Writes the keys of ReadGemmaConfig and layer_types. `architecture` is the name of transformers'
// class.
void WriteGemmaConfig(const ModelSpec& spec, const char* architecture,
                      nlohmann::ordered_json& config);

// Rules for the common keys, without those of the rotary embedding.
std::vector<formats::KeyRule> GemmaConfigKeys();

// Implements LanguageFamily::find_problem.
std::optional<SpecProblem> FindGemmaProblem(const ModelSpec& spec);

}  // namespace plimsoll::models
