#include "trainer/config/owner_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/function_ref.h"
#include "data/source.h"
#include "models/family.h"

namespace plimsoll::config {
namespace {

struct Owner {
  std::string name;
  const std::vector<Setting>& settings;
};

std::vector<Owner> Owners(const std::string& section) {
  std::vector<Owner> owners;
  if (section == "model") {
    for (const models::Family& family : models::Families()) {
      owners.push_back({family.name, family.settings});
    }
  } else {
    static const std::vector<Setting> none;
    owners.push_back({data::kTokens, none});  // its keys are those of config::DataConfig
    for (const data::SourceKind& kind : data::Sources()) {
      owners.push_back({kind.name, kind.settings});
    }
  }
  return owners;
}

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
    case Setting::Type::kFloatList:
      return Type::kFloatList;
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

// A default that is not a constant, in words. Empty: it is a constant.
std::string DefaultInWords(const Setting& setting) {
  if (!setting.derived.empty()) return setting.derived;
  return setting.required.empty() ? "" : "required";
}

std::string DefaultValue(const Setting& setting) {
  return ToText(TypeOf(setting), ValueOf(setting.default_value));
}

// "gpt2: true; llama, qwen2: false"; if all owners have the same text, that text alone.
std::string Joined(const std::vector<std::pair<std::string, std::string>>& by_owner,
                   const char* separator) {
  std::vector<std::pair<std::string, std::vector<std::string>>> texts;
  for (const auto& [owner, text] : by_owner) {
    const auto known = std::ranges::find(texts, text, [](const auto& one) { return one.first; });
    if (known == texts.end()) {
      texts.push_back({text, {owner}});
    } else {
      known->second.push_back(owner);
    }
  }
  if (texts.size() == 1) return texts.front().first;
  std::vector<std::string> parts;
  for (const auto& [text, owners] : texts) {
    parts.push_back(fmt::format("{}: {}", fmt::join(owners, ", "), text));
  }
  return fmt::format("{}", fmt::join(parts, separator));
}

Key KeyOf(const std::string& section, const std::string& name) {
  Key key;
  key.path = section + "." + name;
  std::vector<std::pair<std::string, std::string>> docs, defaults;
  bool derived = false;
  for (const Owner& owner : Owners(section)) {
    const auto setting = std::ranges::find(owner.settings, name, &Setting::name);
    if (setting == owner.settings.end()) continue;
    const bool only_loaded = setting->with_loaded_weights == Setting::WithLoadedWeights::kOnly;
    if (setting->with_loaded_weights != Setting::WithLoadedWeights::kNo) {
      key.with_loaded_weights = Setting::WithLoadedWeights::kYes;
    }
    if (only_loaded) continue;
    key.owners.push_back(owner.name);
    key.type = TypeOf(*setting);
    key.choices = setting->choices;
    key.min = setting->min;
    key.max = setting->max;
    key.above_min = setting->above_min;
    key.below_max = setting->below_max;
    if (!setting->when.empty()) {
      key.when_key = section + "." + setting->when;
      key.when_values = setting->when_values;
    }
    docs.emplace_back(owner.name, setting->doc);
    const std::string words = DefaultInWords(*setting);
    defaults.emplace_back(owner.name, words.empty() ? DefaultValue(*setting) : words);
    derived |= !words.empty();
    key.default_value = ValueOf(setting->default_value);
  }
  key.doc = Joined(docs, " ");
  const std::string told = Joined(defaults, "; ");
  if (derived || told != defaults.front().second) key.derived = told;
  const bool model = section == "model";
  key.get = [name, model, unset = key.default_value](const RunConfig& config) {
    const Settings& settings = model ? config.model.settings : config.data.settings;
    return settings.Has(name) ? ValueOf(settings.Get(name)) : unset;
  };
  key.set = [name, model](RunConfig& config, const Value& value) {
    (model ? config.model.settings : config.data.settings).Set(name, SettingOf(value));
  };
  return key;
}

// The names of all owners' keys. A name comes after the one that precedes it in the owner that adds
// it.
std::vector<std::string> NamesInOrder(const std::string& section) {
  std::vector<std::string> names;
  for (const Owner& owner : Owners(section)) {
    auto behind = names.begin();
    for (const Setting& setting : owner.settings) {
      const auto known = std::ranges::find(names, setting.name);
      behind = known != names.end() ? known + 1 : names.insert(behind, setting.name) + 1;
    }
  }
  return names;
}

// The value of a key that both a source and token data have, as the source's setting.
SettingValue SharedValue(const RunConfig& config, const Key& key) {
  const Value value = key.get(config);
  const auto* const sources = std::get_if<std::vector<TrainSource>>(&value);
  if (sources == nullptr) return SettingOf(value);
  if (sources->size() > 1) {
    throw config.Error(key.path,
                       "only data.source: tokens takes several sources with weights; "
                       "give one list of files");
  }
  return sources->empty() ? std::vector<std::string>() : sources->front().files;
}

void CompleteSection(const RunConfig& config, const std::string& section, Settings& settings,
                     FunctionRef<void()> complete) {
  for (const std::string& name : settings.Names()) {
    const std::string key = section + "." + name;
    if (config.IsSet(key)) settings.Set(name, settings.Get(name), config.Origin(key));
  }
  try {
    complete();
  } catch (const SettingError& error) {
    throw ErrorOf(config, section, error);
  }
}

}  // namespace

std::vector<Key> OwnersKeys(const std::string& section) {
  std::vector<Key> keys;
  for (const std::string& name : NamesInOrder(section)) keys.push_back(KeyOf(section, name));
  return keys;
}

std::vector<std::string> OwnersOf(const std::string& section) {
  std::vector<std::string> names;
  for (const Owner& owner : Owners(section)) names.push_back(owner.name);
  return names;
}

std::string OwnersDefault(const Key& key, const std::string& owner) {
  for (const Owner& one : Owners(key.Section())) {
    const auto setting = std::ranges::find(one.settings, key.Name(), &Setting::name);
    if (one.name != owner || setting == one.settings.end()) continue;
    const std::string words = DefaultInWords(*setting);
    return words.empty() ? fmt::format("`{}`", DefaultValue(*setting)) : words;
  }
  return "";
}

UserError ErrorOf(const RunConfig& config, const std::string& section, const SettingError& error) {
  const std::string key = section + "." + error.name(), reason = error.what();
  if (dynamic_cast<const MissingSetting*>(&error) != nullptr) return Missing(config, key, reason);
  return config.Error(key, reason);
}

void CompleteModel(RunConfig& config) {
  CompleteSection(config, "model", config.model.settings, [&] {
    // Without a family, init_from determines all settings.
    const models::Family* const family = models::FindFamily(config.model.family);
    if (family != nullptr) models::Complete(*family, config.model.settings);
  });
}

void CompleteSource(RunConfig& config) {
  const data::SourceKind* const kind = data::FindSource(config.data.source);
  if (kind == nullptr) return;
  Settings& settings = config.data.settings;
  for (const Setting& row : kind->settings) {
    const Key& key = *FindKey("data." + row.name);
    if (config.IsSet(key.path)) settings.Set(row.name, SharedValue(config, key));
  }
  CompleteSection(config, "data", settings,
                  [&] { CompleteSettings(kind->settings, kind->complete, settings); });
}

bool MakesUpData(const RunConfig& config) {
  const data::SourceKind* const kind = data::FindSource(config.data.source);
  return kind == nullptr ? config.data.synthetic : kind->MakesUp(config.data.settings);
}

}  // namespace plimsoll::config
