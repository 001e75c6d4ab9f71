// Mistral 7B: Llama without biases, with optional sliding-window attention.
//   Jiang et al. 2023, "Mistral 7B".
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "models/config_keys.h"
#include "models/language_settings.h"
#include "models/llama.h"
#include "models/llama_config.h"
#include "models/rope_config.h"

namespace plimsoll::models {
namespace {

using formats::Read;

std::optional<SpecProblem> FindMistralProblem(const ModelSpec& spec) {
  if (spec.attention_bias) {
    return SpecProblem{"attention_bias",
                       "mistral has none: leave it out, say false, or use family: llama"};
  }
  return FindRopeProblem(spec);
}

ModelSpec ReadMistral(const formats::JsonObject& config) {
  ModelSpec spec = ReadLlamaConfig(config, "mistral", {.kv_heads = 8});
  RequireSwitch(config, "attention_bias", false);
  // As in transformers, null means no window, but a missing key means 4096.
  if (!config.json().contains("sliding_window")) {
    spec.window = 4096;
  } else if (config.Has("sliding_window")) {
    spec.window = SizeIn(config, "sliding_window");
  }
  return spec;
}

void WriteMistral(const ModelSpec& spec, nlohmann::ordered_json& config) {
  WriteLlamaConfig(spec, "MistralForCausalLM", config);
  config["sliding_window"] =
      spec.window ? nlohmann::ordered_json(*spec.window) : nlohmann::ordered_json();
}

std::vector<Setting> MistralSettings() {
  std::vector<Setting> settings =
      LlamaSettings(/*attention_bias=*/false, /*norm_eps=*/1e-5, "10000");
  settings.push_back(LanguageSetting("window"));
  return settings;
}

const LanguageFamilyRegistration kFamily({
    .name = "mistral",
    .settings = MistralSettings(),
    .derive = &DeriveLlama,
    .find_problem = &FindMistralProblem,
    .make = [](ModelSpec spec) { return MakeLlama(std::move(spec), {}); },
    .read_config = &ReadMistral,
    .write_config = &WriteMistral,
    .config_keys = Joined(LlamaConfigKeys(), {Read("attention_bias"), Read("sliding_window")}),
});

}  // namespace
}  // namespace plimsoll::models
