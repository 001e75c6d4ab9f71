#include "trainer/step/adapter.h"

#include <map>
#include <vector>

#include "adapters/peft.h"
#include "base/error.h"
#include "trainer/config/schema.h"

namespace plimsoll::trainer {

using models::ParameterInfo;

void ResolveAdapter(config::RunConfig& config) {
  config::LoraConfig& lora = config.lora;
  if (lora.init_from.empty()) return;
  // A file may give lora.rank 0 and the other defaults, as a resolved file does.
  const bool any = lora.rank > 0;
  const auto given = [&](const char* name) {
    const config::Key& key = *config::FindKey(name);
    return config.IsSet(name) && (any || key.get(config) != key.default_value);
  };
  if (given("lora.rank") && given("lora.alpha") && given("lora.rslora") && given("lora.targets")) {
    return;
  }
  try {
    const adapters::Settings settings = adapters::ReadSettings(lora.init_from);
    if (!given("lora.alpha")) lora.alpha = settings.alpha;
    if (!given("lora.rslora")) lora.rslora = settings.rslora;
    if (!given("lora.targets")) lora.targets = settings.targets;
    if (!given("lora.rank")) lora.rank = settings.rank;
  } catch (const UserError& error) {
    throw config.Error("lora.init_from", error.what());
  }
}

adapters::Lora LoraFrom(const config::RunConfig& config, const models::Model& model) {
  const config::LoraConfig& c = config.lora;
  adapters::Lora lora;
  if (c.rank == 0) return lora;
  lora.rank = c.rank;
  lora.alpha = c.alpha;
  lora.rslora = c.rslora;
  lora.dropout = c.dropout;
  try {
    lora.layers = adapters::SelectLayers(model, c.targets);
  } catch (const UserError& error) {
    throw config.Error("lora.targets", error.what());
  }
  return lora;
}

void StartAdapter(Session& session, const config::RunConfig& config) {
  if (config.lora.init_from.empty()) {
    InitializeAdapter(session, static_cast<uint64_t>(config.model.seed));
    return;
  }
  try {
    LoadAdapter(session, config.lora.init_from);
  } catch (const UserError& error) {
    throw config.Error("lora.init_from", error.what());
  }
}

void InitializeAdapter(Session& session, uint64_t seed) {
  for (const ParameterInfo& parameter : adapters::Parameters(session.compiled().options.lora)) {
    session.Initialize(parameter, seed);
  }
}

void LoadAdapter(Session& session, const std::string& folder) {
  const adapters::Lora& lora = session.compiled().options.lora;
  if (!lora.enabled()) return;
  std::vector<float> values;
  adapters::ReadAdapter(
      folder, lora,
      [&](const ParameterInfo& parameter) {
        values.resize(static_cast<size_t>(parameter.shape.elements()));
        return values.data();
      },
      [&](const ParameterInfo& parameter) { session.WriteParameter(parameter.name, values); });
}

void SaveAdapter(Session& session, const models::Model& model, const std::string& base,
                 const std::string& folder, bool writes) {
  const adapters::Lora& lora = session.compiled().options.lora;
  std::map<std::string, std::vector<float>> values;
  for (const ParameterInfo& parameter : adapters::Parameters(lora)) {
    values[parameter.name] = session.ReadParameter(parameter.name);
  }
  if (!writes) return;
  adapters::WriteAdapter(
      folder, model, lora, base, formats::TensorType::kF32,
      [&](const ParameterInfo& parameter) { return values.at(parameter.name).data(); });
}

}  // namespace plimsoll::trainer
