// Gemma 2: soft caps of attention scores and logits, and a sliding window in every second layer.
//   Riviere et al. 2024, "Gemma 2: Improving Open Language Models at a Practical Size".
#include <nlohmann/json.hpp>
#include <utility>

#include "models/config_keys.h"
#include "models/gemma.h"
#include "models/gemma_config.h"
#include "models/language_settings.h"
#include "models/rope_config.h"

namespace plimsoll::models {
namespace {

constexpr int64_t kWindowPattern = 2;
constexpr double kScoresCap = 50.0;
constexpr double kLogitsCap = 30.0;

ModelSpec ReadGemma2(const formats::JsonObject& config) {
  ModelSpec spec = ReadGemmaConfig(
      config, "gemma2",
      {.vocab = 256000, .max_sequence = 8192, .final_logit_softcapping = kLogitsCap});
  ReadRope(config, spec);
  spec.windowed =
      ReadLayerTypes(config, spec.layers).value_or(WindowedLayers(spec.layers, kWindowPattern));
  spec.attn_logit_softcapping = ReadSoftCap(config, "attn_logit_softcapping", kScoresCap);
  return spec;
}

void WriteGemma2(const ModelSpec& spec, nlohmann::ordered_json& config) {
  WriteGemmaConfig(spec, "Gemma2ForCausalLM", config);
}

std::vector<Setting> Gemma2Settings() {
  std::vector<Setting> settings = GemmaSettings("10000", kWindowPattern);
  settings.push_back(WithDefault(LanguageSetting("attn_logit_softcapping"), kScoresCap));
  settings.push_back(WithDefault(LanguageSetting("final_logit_softcapping"), kLogitsCap));
  return settings;
}

const LanguageFamilyRegistration kFamily({
    .name = "gemma2",
    .settings = Gemma2Settings(),
    .derive = &DeriveGemma,
    .find_problem = &FindGemmaProblem,
    .make = [](ModelSpec spec) { return MakeGemma(std::move(spec), {}); },
    .read_config = &ReadGemma2,
    .write_config = &WriteGemma2,
    .config_keys = Joined(Joined(GemmaConfigKeys(), RopeKeys()),
                          {formats::Read("attn_logit_softcapping")}),
});

}  // namespace
}  // namespace plimsoll::models
