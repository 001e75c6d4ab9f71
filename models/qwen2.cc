// Qwen2 and Qwen2.5: Llama with a bias on q, k and v.
//   Yang et al. 2024, "Qwen2 Technical Report".
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "models/config_keys.h"
#include "models/llama.h"
#include "models/llama_config.h"
#include "models/rope_config.h"

namespace plimsoll::models {
namespace {

using formats::Harmless;
using formats::Read;

std::optional<SpecProblem> FindQwen2Problem(const ModelSpec& spec) {
  if (!spec.attention_bias) {
    return SpecProblem{"attention_bias",
                       "qwen2 always has it: leave it out, say true, or use family: llama"};
  }
  return FindRopeProblem(spec);
}

ModelSpec ReadQwen2(const formats::JsonObject& config) {
  ModelSpec spec = ReadLlamaConfig(config, "qwen2");
  spec.attention_bias = true;
  RequireSwitch(config, "attention_bias", true);
  RequireSwitch(config, "use_sliding_window", false);
  return spec;
}

void WriteQwen2(const ModelSpec& spec, nlohmann::ordered_json& config) {
  WriteLlamaConfig(spec, "Qwen2ForCausalLM", config);
  config["use_sliding_window"] = false;
}

const LanguageFamilyRegistration kFamily({
    .name = "qwen2",
    .settings = LlamaSettings(/*attention_bias=*/true, /*norm_eps=*/1e-6, "1000000"),
    .derive = &DeriveLlama,
    .find_problem = &FindQwen2Problem,
    .make = [](ModelSpec spec) { return MakeLlama(std::move(spec), {}); },
    .read_config = &ReadQwen2,
    .write_config = &WriteQwen2,
    .config_keys = Joined(LlamaConfigKeys(),
                          {Read("attention_bias"), Read("use_sliding_window"),
                           Harmless("sliding_window", "it means something with use_sliding_window"),
                           Harmless("max_window_layers",
                                    "it means something with use_sliding_window"),
                           formats::Refused("use_mrope", "rotary embeddings are of texts alone")}),
});

}  // namespace
}  // namespace plimsoll::models
