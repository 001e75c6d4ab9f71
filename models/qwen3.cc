// Qwen3 (dense): Llama with an RMS norm of each head of q and k before their rotation, and a
// head width that is set independently: heads · head_width may differ from the model's width.
//   Yang et al. 2025, "Qwen3 Technical Report".
#include <nlohmann/json.hpp>
#include <utility>

#include "models/config_keys.h"
#include "models/llama.h"
#include "models/llama_config.h"
#include "models/rope_config.h"

namespace plimsoll::models {
namespace {

using formats::Harmless;
using formats::Read;

ModelSpec ReadQwen3(const formats::JsonObject& config) {
  ModelSpec spec = ReadLlamaConfig(config, "qwen3", {.kv_heads = 32, .head_width = 128});
  spec.attention_bias = config.GetBool("attention_bias", false);
  RequireSwitch(config, "use_sliding_window", false);
  return spec;
}

void WriteQwen3(const ModelSpec& spec, nlohmann::ordered_json& config) {
  WriteLlamaConfig(spec, "Qwen3ForCausalLM", config);
  config["attention_bias"] = spec.attention_bias;
  config["use_sliding_window"] = false;
}

const LanguageFamilyRegistration kFamily({
    .name = "qwen3",
    .settings = LlamaSettings(/*attention_bias=*/false, /*norm_eps=*/1e-6, "1000000"),
    .derive = &DeriveLlama,
    .find_problem = &FindRopeProblem,
    .make =
        [](ModelSpec spec) {
          return MakeLlama(std::move(spec), {.projection_bias = true, .qk_norm = true});
        },
    .read_config = &ReadQwen3,
    .write_config = &WriteQwen3,
    .config_keys = Joined(LlamaConfigKeys(),
                          {Read("attention_bias"), Read("use_sliding_window"),
                           Harmless("sliding_window", "it means something with use_sliding_window"),
                           Harmless("max_window_layers",
                                    "it means something with use_sliding_window")}),
});

}  // namespace
}  // namespace plimsoll::models
