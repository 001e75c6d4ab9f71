#include "trainer/step/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "adapters/modules_to_save.h"
#include "base/error.h"
#include "base/folders.h"
#include "formats/model_safetensors.h"
#include "models/huggingface.h"
#include "trainer/config/schema.h"

namespace plimsoll::trainer {

using models::ParameterInfo;

namespace {

std::vector<ParameterInfo> SavedBy(const config::RunConfig& config, const models::Model& model) {
  return config.Naming("lora.modules_to_save",
                       [&] { return adapters::SelectSaved(model, config.lora.modules_to_save); });
}

}  // namespace

void ResolveAdapter(config::RunConfig& config) {
  config::LoraConfig& lora = config.lora;
  if (lora.init_from.empty()) return;
  // A resolved file contains lora.rank 0 and the other defaults; these do not count as given by the
  // user.
  const bool any = lora.rank > 0;
  const auto given = [&](const char* name) {
    const config::Key& key = *config::FindKey(name);
    return config.IsSet(name) && (any || key.get(config) != key.default_value);
  };
  constexpr const char* kTaken[] = {"lora.rank",    "lora.alpha",   "lora.rslora",
                                    "lora.targets", "lora.dropout", "lora.modules_to_save"};
  if (std::ranges::all_of(kTaken, given)) return;
  const adapters::Settings settings =
      config.Naming("lora.init_from", [&] { return adapters::ReadSettings(lora.init_from); });
  if (!given("lora.alpha")) lora.alpha = settings.alpha;
  if (!given("lora.rslora")) lora.rslora = settings.rslora;
  if (!given("lora.targets")) lora.targets = settings.targets;
  if (!given("lora.dropout")) {
    lora.dropout = config.preference.without_dropout() ? 0 : settings.dropout;
  }
  if (!given("lora.modules_to_save")) lora.modules_to_save = settings.modules_to_save;
  if (!given("lora.rank")) lora.rank = settings.rank;
}

void RequireAdapterNamed(const config::RunConfig& config) {
  const std::string& folder = config.model.init_from;
  const std::string file = fmt::format("{}/{}", folder, adapters::kConfigFile);
  if (folder.empty() || config.lora.init_from == folder || !Exists(file)) return;
  throw config.Error(
      "model.init_from",
      fmt::format(
          "{} holds an adapter next to its weights, which would be left out; train that on "
          "with lora.init_from: {}, merge it into the weights (PEFT's merge_and_unload), or "
          "move {} away",
          folder, folder, adapters::kConfigFile));
}

void AddFreshModules(config::RunConfig& config, const models::Model& model) {
  config::LoraConfig& lora = config.lora;
  if (!lora.asked()) return;
  std::vector<ParameterInfo> fresh = models::FreshParameters(config.model.init_from, model);
  const std::vector<ParameterInfo> saved = SavedBy(config, model);
  std::erase_if(fresh, [&](const ParameterInfo& parameter) {
    return std::ranges::find(saved, parameter) != saved.end();
  });
  std::ranges::copy(
      config.Naming("lora.modules_to_save", [&] { return adapters::ModulesOf(model, fresh); }),
      std::back_inserter(lora.modules_to_save));
}

adapters::Lora LoraFrom(const config::RunConfig& config, const models::Model& model) {
  const config::LoraConfig& c = config.lora;
  adapters::Lora lora;
  if (c.rank == 0) return lora;
  lora.rank = c.rank;
  lora.alpha = c.alpha;
  lora.rslora = c.rslora;
  lora.dropout = c.dropout;
  if (lora.dropout > 0 && config.preference.without_dropout()) {
    throw config.Error("lora.dropout",
                       fmt::format("{} next to preference.dropout: off, which the reference needs; "
                                   "remove it, or set preference.dropout: model",
                                   c.dropout));
  }
  lora.saved = SavedBy(config, model);
  lora.layers = config.Naming("lora.targets",
                              [&] { return adapters::SelectLayers(model, c.targets, lora.saved); });
  return lora;
}

void StartAdapter(Session& session, const models::Model& model, const config::RunConfig& config,
                  std::span<const std::string> fresh) {
  if (config.lora.init_from.empty()) {
    InitializeAdapter(session, static_cast<uint64_t>(config.model.seed));
    return;
  }
  config.Naming("lora.init_from",
                [&] { LoadAdapter(session, model, config.lora.init_from, fresh); });
}

void RequireBase(const std::string& checksum, const std::string& adapter, const std::string& base) {
  // A folder without weights is refused where its weights are read.
  if (checksum.empty() || !formats::HasModelSafetensors(base)) return;
  if (models::WeightsChecksum(base) == checksum) return;
  throw UserError(fmt::format(
      "{}: its adapter was trained over other weights than {} holds now, or over the same under "
      "other names or types; put those back",
      adapter, base));
}

void RequireStoredModel(const config::RunConfig& config, const std::string& adapter) {
  if (!config.lora.asked() || !config.model.init_from.empty()) return;
  throw UserError(fmt::format(
      "{}: its adapter was trained over a model that started at random, for a trial, and that no "
      "file has; train with model.init_from",
      adapter));
}

void InitializeAdapter(Session& session, uint64_t seed) {
  for (const ParameterInfo& parameter : adapters::Parameters(session.compiled().options.lora)) {
    session.Initialize(parameter, seed);
  }
}

void LoadAdapter(Session& session, const models::Model& model, const std::string& folder,
                 std::span<const std::string> optional) {
  const adapters::Lora& lora = session.compiled().options.lora;
  if (!lora.enabled()) return;
  std::vector<float> values;
  adapters::ReadAdapter(
      folder, model, lora,
      [&](const ParameterInfo& parameter) {
        values.resize(static_cast<size_t>(parameter.shape.elements()));
        return values.data();
      },
      [&](const ParameterInfo& parameter) {
        if (session.Carries(parameter.name)) session.WriteParameter(parameter.name, values);
      },
      optional);
}

void SaveAdapter(Session& session, const models::Model& model, const adapters::Base& base,
                 const std::string& folder, bool writes) {
  const adapters::Lora& lora = session.compiled().options.lora;
  std::map<std::string, std::vector<float>> values;
  for (const ParameterInfo& parameter : adapters::TrainedParameters(lora)) {
    values[parameter.name] = session.ReadParameter(parameter.name);
  }
  if (!writes) return;
  adapters::WriteAdapter(
      folder, model, lora, base, formats::TensorType::kF32,
      [&](const ParameterInfo& parameter) { return values.at(parameter.name).data(); });
}

}  // namespace plimsoll::trainer
