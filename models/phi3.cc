// Phi-3 and Phi-4: Llama without biases. Checkpoints store q, k and v as one tensor, and gate and
// up as another. Heads may rotate in part, attention may have a sliding window, and LongRoPE
// extends the context beyond that of the first training.
//   Abdin et al. 2024, "Phi-3 Technical Report: A Highly Capable Language Model Locally on Your
//   Phone"; "Phi-4 Technical Report".
//   Ding et al. 2024, "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens".
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "models/config_keys.h"
#include "models/language_settings.h"
#include "models/llama.h"
#include "models/llama_config.h"
#include "models/rope_config.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using formats::Read;

std::optional<SpecProblem> FindPhi3Problem(const ModelSpec& spec) {
  if (spec.attention_bias) {
    return SpecProblem{"attention_bias",
                       "phi3 has none: leave it out, say false, or use family: llama"};
  }
  if (spec.heads * spec.head_width != spec.width) {
    return SpecProblem{"head_width", fmt::format("{} of {} {} not as wide as the model, {}, "
                                                 "as phi3's must be",
                                                 Counted(spec.heads, "head"), spec.head_width,
                                                 spec.heads == 1 ? "is" : "are", spec.width)};
  }
  if (spec.rope_scaling && spec.rope_scaling->type != RopeScaling::Type::kLongrope) {
    return SpecProblem{"rope_scaling", "phi3 has longrope alone"};
  }
  return FindRopeProblem(spec);
}

// Published files name the Python code that they were released with before transformers supported
// the model. That code computes the same; the code of other models may not.
void CheckCode(const JsonObject& config) {
  if (!config.Has("auto_map")) return;
  const JsonObject map = config.RequireObject("auto_map");
  for (const std::string& name : map.Keys()) {
    const std::string code = map.RequireString(name);
    const bool known = std::ranges::any_of(
        std::vector<std::string>{"configuration_phi3.Phi3Config", "modeling_phi3.Phi3ForCausalLM"},
        [&](const std::string& own) { return code == own || code.ends_with("--" + own); });
    if (!known) {
      map.Fail(name,
               fmt::format("names code of the checkpoint's own, \"{}\"; if transformers' phi3 "
                           "gives the same numbers, remove it",
                           formats::Printable(code)));
    }
  }
}

// Requires a dropout rate of 0 for a place that has no dropout here; all published models have 0.
void RequireNoDropout(const JsonObject& config, const char* key) {
  if (config.GetFloat(key, 0) != 0) config.Fail(key, "only 0 is supported");
}

// Requires 1 for a key that published files of Phi-4-mini have and transformers does not read.
void RequireOne(const JsonObject& config, const char* key) {
  if (config.GetFloat(key, 1) != 1) config.Fail(key, "only 1 is supported");
}

ModelSpec ReadPhi3(const JsonObject& config) {
  ModelSpec spec = ReadLlamaConfig(config, "phi3", {.norm_eps = 1e-5, .rope = RopeForm::kPhi3});
  CheckCode(config);
  for (const char* key : {"attention_bias", "mlp_bias", "lm_head_bias"}) {
    RequireSwitch(config, key, false);
  }
  for (const char* key : {"resid_pdrop", "embd_pdrop"}) RequireNoDropout(config, key);
  for (const char* key : {"full_attn_mod", "interpolate_factor"}) RequireOne(config, key);
  // A missing key means no window, as null does, as in transformers.
  if (config.Has("sliding_window")) spec.window = SizeIn(config, "sliding_window");
  return spec;
}

void WritePhi3(const ModelSpec& spec, nlohmann::ordered_json& config) {
  WriteLlamaConfig(spec, "Phi3ForCausalLM", config, RopeForm::kPhi3);
  config["resid_pdrop"] = 0.0;
  config["embd_pdrop"] = 0.0;
  config["sliding_window"] =
      spec.window ? nlohmann::ordered_json(*spec.window) : nlohmann::ordered_json();
  // The default of Phi3Config is a token id that a small vocabulary does not have.
  config["pad_token_id"] = nlohmann::ordered_json();
}

std::vector<Setting> Phi3Settings() {
  std::vector<Setting> settings =
      LlamaSettings(/*attention_bias=*/false, /*norm_eps=*/1e-5, "10000");
  std::erase_if(settings, [](const Setting& setting) {
    return setting.name == "rope_type" || setting.name == "rope_factor" ||
           setting.name == "rope_original_sequence";
  });
  settings.push_back(LanguageSetting("rotary_width"));
  settings.push_back(LanguageSetting("window"));
  return settings;
}

const LanguageFamilyRegistration kFamily({
    .name = "phi3",
    .settings = Phi3Settings(),
    .derive = &DeriveLlama,
    .find_problem = &FindPhi3Problem,
    .make = [](ModelSpec spec) { return MakeLlama(std::move(spec), {.packed_tensors = true}); },
    .read_config = &ReadPhi3,
    .write_config = &WritePhi3,
    .config_keys = Joined(LlamaConfigKeys(),
                          {Read("attention_bias"), Read("mlp_bias"), Read("lm_head_bias"),
                           Read("resid_pdrop"), Read("embd_pdrop"), Read("sliding_window"),
                           Read("auto_map"), Read("full_attn_mod"), Read("interpolate_factor")}),
});

}  // namespace
}  // namespace plimsoll::models
