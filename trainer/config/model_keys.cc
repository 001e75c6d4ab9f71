#include "trainer/config/model_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "models/family.h"

namespace plimsoll::config {
namespace {

constexpr const char* kSection = "model.";

Type TypeOf(const Setting& setting) {
  switch (setting.type) {
    case Setting::Type::kBool:
      return Type::kBool;
    case Setting::Type::kInt:
      return Type::kInt;
    case Setting::Type::kFloat:
      return Type::kFloat;
    case Setting::Type::kString:
      return Type::kString;
    case Setting::Type::kChoice:
      return Type::kEnum;
    case Setting::Type::kStringList:
      return Type::kStringList;
  }
  throw InternalError("a setting of no type");
}

Value ValueOf(const SettingValue& value) {
  return std::visit([](const auto& held) { return Value(held); }, value);
}

SettingValue SettingOf(const Value& value) {
  return std::visit(
      [](const auto& held) -> SettingValue {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_constructible_v<SettingValue, T>) return held;
        throw InternalError("a value that no setting has");
      },
      value);
}

// What a family says of a default: in words, or the value.
std::string DefaultOf(const Setting& setting) {
  if (!setting.derived.empty()) return setting.derived;
  if (!setting.required.empty()) return "required";
  return ToText(TypeOf(setting), ValueOf(setting.default_value));
}

// "gpt2: true; llama, qwen2: false"; of one mind, that alone.
std::string Joined(const std::vector<std::pair<std::string, std::string>>& by_family) {
  std::vector<std::pair<std::string, std::vector<std::string>>> texts;
  for (const auto& [family, text] : by_family) {
    const auto known = std::ranges::find(texts, text, [](const auto& one) { return one.first; });
    if (known == texts.end()) {
      texts.push_back({text, {family}});
    } else {
      known->second.push_back(family);
    }
  }
  if (texts.size() == 1) return texts.front().first;
  std::vector<std::string> parts;
  for (const auto& [text, families] : texts) {
    parts.push_back(fmt::format("{}: {}", fmt::join(families, ", "), text));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

Key KeyOf(const std::string& name) {
  Key key;
  key.path = kSection + name;
  std::vector<std::pair<std::string, std::string>> docs, defaults;
  bool derived = false;
  for (const models::Family& family : models::Families()) {
    const auto setting = std::ranges::find(family.settings, name, &Setting::name);
    if (setting == family.settings.end()) continue;
    const bool only_beside = setting->beside_weights == Setting::BesideWeights::kOnlyThere;
    if (setting->beside_weights != Setting::BesideWeights::kNo) {
      key.beside_weights = Setting::BesideWeights::kYes;
    }
    if (only_beside) continue;
    key.families.push_back(family.name);
    key.type = TypeOf(*setting);
    key.choices = setting->choices;
    key.min = setting->min;
    key.max = setting->max;
    key.above_min = setting->above_min;
    key.below_max = setting->below_max;
    if (!setting->when.empty()) {
      key.when_key = kSection + setting->when;
      key.when_values = setting->when_values;
    }
    docs.emplace_back(family.name, setting->doc);
    defaults.emplace_back(family.name, DefaultOf(*setting));
    derived |= !setting->derived.empty() || !setting->required.empty();
    key.default_value = ValueOf(setting->default_value);
  }
  key.doc = Joined(docs);
  const std::string told = Joined(defaults);
  if (derived || told != defaults.front().second) key.derived = told;
  key.get = [name](const RunConfig& config) { return ValueOf(config.model.settings.Get(name)); };
  key.set = [name](RunConfig& config, const Value& value) {
    config.model.settings.Set(name, SettingOf(value));
  };
  return key;
}

// Every family's names, each behind the one it follows in the family that brings it.
std::vector<std::string> NamesInOrder() {
  std::vector<std::string> names;
  for (const models::Family& family : models::Families()) {
    auto behind = names.begin();
    for (const Setting& setting : family.settings) {
      const auto known = std::ranges::find(names, setting.name);
      behind = known != names.end() ? known + 1 : names.insert(behind, setting.name) + 1;
    }
  }
  return names;
}

}  // namespace

std::vector<Key> KeysOfFamilies() {
  std::vector<Key> keys;
  for (const std::string& name : NamesInOrder()) keys.push_back(KeyOf(name));
  return keys;
}

UserError ErrorOf(const RunConfig& config, const SettingError& error) {
  const std::string key = kSection + error.name(), reason = error.what();
  if (!reason.starts_with("missing; ")) return config.Error(key, reason);
  return UserError(fmt::format("{}: {}: {}", config.PlaceFor(key), key, reason));
}

void CompleteModel(RunConfig& config) {
  ModelConfig& model = config.model;
  for (const std::string& name : model.settings.Names()) {
    const std::string key = kSection + name;
    if (config.IsSet(key)) model.settings.Set(name, model.settings.Get(name), config.Origin(key));
  }
  const models::Family* const family = models::FindFamily(model.family);
  if (family == nullptr) return;  // init_from says it
  try {
    models::Complete(*family, model.settings);
  } catch (const SettingError& error) {
    throw ErrorOf(config, error);
  }
}

}  // namespace plimsoll::config
