// Reads and writes config.json through the model's family.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/settings.h"
#include "formats/foreign_files.h"
#include "models/classifier.h"
#include "models/config_keys.h"
#include "models/family.h"
#include "models/huggingface.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using Json = nlohmann::ordered_json;

const char* TorchName(formats::TensorType type) {
  switch (type) {
    case formats::TensorType::kF32:
      return "float32";
    case formats::TensorType::kBf16:
      return "bfloat16";
    case formats::TensorType::kF16:
      return "float16";
    default:
      throw InternalError("a type that no checkpoint's weights have");
  }
}

std::string ReadChoice(const JsonObject& config, const Setting& setting) {
  std::string choice = config.RequireString(setting.name);
  if (std::ranges::find(setting.choices, choice) == setting.choices.end()) {
    config.Fail(setting.name, fmt::format("\"{}\" is not one of {}", formats::Printable(choice),
                                          fmt::join(setting.choices, ", ")));
  }
  return choice;
}

// Reads a setting from the key that Model::WriteConfig writes.
SettingValue ReadSetting(const JsonObject& config, const Setting& setting) {
  switch (setting.type) {
    case Setting::Type::kBool:
      return config.RequireBool(setting.name);
    case Setting::Type::kInt:
      return config.RequireInt(setting.name);
    case Setting::Type::kFloat:
      return config.RequireFloat(setting.name);
    case Setting::Type::kString:
      return config.RequireString(setting.name);
    case Setting::Type::kChoice:
      return ReadChoice(config, setting);
    case Setting::Type::kStringList:
      return config.RequireStrings(setting.name);
    case Setting::Type::kFloatList:
      return config.RequireFloats(setting.name);
  }
  throw InternalError("a setting of no type");
}

std::unique_ptr<Model> ReadSettings(const Family& family, const JsonObject& config,
                                    Settings& settings) {
  for (const Setting& setting : family.settings) {
    if (!config.Has(setting.name)) continue;
    const SettingValue value = ReadSetting(config, setting);
    if (const std::string why = OutOfRange(setting, value); !why.empty()) {
      config.Fail(setting.name, why);
    }
    if (!settings.IsGiven(setting.name)) {
      settings.Set(setting.name, value);
    } else if (setting.with_loaded_weights == Setting::WithLoadedWeights::kNo &&
               settings.Get(setting.name) != value) {
      throw SettingError(setting.name,
                         fmt::format("is another than that of the folder's model, of family {}; "
                                     "remove it",
                                     family.name));
    }
  }
  Complete(family, settings);
  return family.make(settings);
}

}  // namespace

std::unique_ptr<Model> ModelFromConfig(const JsonObject& config, Settings& settings) {
  formats::RefuseForeignConfig(config);
  const std::string type = config.RequireString("model_type");
  const Family* const family = FindFamily(type);
  if (family == nullptr) {
    config.Fail("model_type",
                fmt::format("\"{}\" is not supported, only {}", formats::Printable(type),
                            fmt::join(FamilyNames(), ", ")));
  }
  formats::CheckKeys(config, ConfigKeys(*family), formats::UnknownKeys::kNamed);
  for (const std::string& name : settings.Names()) {
    if (!settings.IsGiven(name)) continue;
    if (std::ranges::find(family->settings, name, &Setting::name) != family->settings.end()) {
      continue;
    }
    throw SettingError(name, fmt::format("has no meaning for the folder's model, of family {}; "
                                         "remove it",
                                         family->name));
  }
  std::unique_ptr<Model> unlisted = family->read_config ? family->read_config(config, settings)
                                                        : ReadSettings(*family, config, settings);
  // Values from the file must be valid in a run file, too, because a run records them there.
  for (const Setting& setting : family->settings) {
    if (!settings.Has(setting.name) || settings.IsGiven(setting.name)) continue;
    if (const std::string why = OutOfRange(setting, settings.Get(setting.name)); !why.empty()) {
      config.Fail("model_type", fmt::format("these settings make no {} model: {}: {}", family->name,
                                            setting.name, why));
    }
  }
  std::unique_ptr<Model> model = WithParameters(std::move(unlisted));
  // The names are not used if the head has another number of classes than the checkpoint.
  std::vector<std::string> names = ReadClassNames(config);
  if (model->classes() == std::ssize(names)) model->set_class_names(std::move(names));
  return model;
}

std::unique_ptr<Model> ModelFromHuggingFace(const std::string& folder, Settings& settings) {
  const std::string file = (std::filesystem::path(folder) / "config.json").string();
  if (std::error_code ignored; !std::filesystem::exists(file, ignored)) {
    formats::RefuseForeignModel(folder);
  }
  return ModelFromConfig(JsonObject::FromFile(file), settings);
}

std::unique_ptr<Model> ModelFromHuggingFace(const std::string& folder) {
  Settings settings;
  try {
    return ModelFromHuggingFace(folder, settings);
  } catch (const SettingError& error) {  // every setting comes from the file
    throw UserError(
        fmt::format("{}/config.json: its model.{}: {}", folder, error.name(), error.what()));
  }
}

std::string ConfigJson(const Model& model, formats::TensorType type) {
  Json config;
  model.WriteConfig(config);
  if (!model.class_names().empty()) WriteClassNames(model.class_names(), config);
  config["torch_dtype"] = TorchName(type);
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll::models
