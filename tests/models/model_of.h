// A model of a family by its settings; the others have their defaults.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/family.h"

namespace plimsoll::models {

using Values = std::vector<std::pair<std::string, SettingValue>>;

inline std::unique_ptr<Model> ModelOf(const std::string& name, const Values& values) {
  const Family& family = *FindFamily(name);
  Settings settings;
  for (const auto& [key, value] : values) settings.Set(key, value, "test");
  Complete(family, settings);
  return MakeModel(family, settings);
}

}  // namespace plimsoll::models
