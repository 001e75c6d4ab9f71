// The common settings and config.json keys of Llama, Qwen2, Qwen3, Mistral and Phi-3. Each family
// adds its own keys to these.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "base/settings.h"
#include "formats/json.h"
#include "formats/key_rules.h"
#include "models/model_spec.h"
#include "models/rope_config.h"

namespace plimsoll::models {

// The settings with a family's defaults; `rope_theta` is the default as the documentation writes
// it.
std::vector<Setting> LlamaSettings(bool attention_bias, double norm_eps, const char* rope_theta);

// Implements LanguageFamily::derive.
void DeriveLlama(Settings& settings);

// Values for keys that config.json lacks, as in the family's class of transformers.
struct LlamaConfigDefaults {
  std::optional<int64_t> kv_heads = std::nullopt;    // nullopt: the number of query heads
  std::optional<int64_t> head_width = std::nullopt;  // nullopt: hidden_size / num_attention_heads
  double norm_eps = 1e-6;
  RopeForm rope = RopeForm::kLlama;
};

// Reads the keys of LlamaConfigKeys(); sets no attention bias.
ModelSpec ReadLlamaConfig(const formats::JsonObject& config, const char* family,
                          const LlamaConfigDefaults& defaults = {});

// Writes the same keys. `architecture` is the name of transformers' class.
void WriteLlamaConfig(const ModelSpec& spec, const char* architecture,
                      nlohmann::ordered_json& config, RopeForm rope = RopeForm::kLlama);

std::vector<formats::KeyRule> LlamaConfigKeys();

}  // namespace plimsoll::models
