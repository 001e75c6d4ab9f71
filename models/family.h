// Families of models: the values that `model.family` may have. A family registers itself, in its
// own file, with its settings and the functions that make a model from them; no other code knows
// its name.
//
//   const FamilyRegistration kFamily({.name = "bigram", .settings = {…}, .make = …});
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "formats/json.h"
#include "formats/key_rules.h"
#include "models/model.h"

namespace plimsoll::models {

struct Family {
  std::string name;               // model.family, and config.json's model_type
  std::vector<Setting> settings;  // its keys of the section `model`
  // Fills in settings that follow from other settings, and throws SettingError where settings
  // contradict one another. The default values of `settings` are already filled in. Empty: nothing
  // follows.
  std::function<void(Settings&)> complete = {};
  // Makes a model from complete settings; its parameters aren't listed yet. Throws SettingError
  // when the settings describe no model.
  std::function<std::unique_ptr<Model>(const Settings&)> make;
  // Makes a model from a folder's config.json. `settings` holds the settings that are given beside
  // the weights, which take precedence; the function fills in those that aren't given. The model's
  // parameters aren't listed yet. Empty: config.json has a member for each setting, as
  // Model::WriteConfig writes them unless the model writes another form.
  std::function<std::unique_ptr<Model>(const formats::JsonObject&, Settings&)> read_config = {};
  // The keys of config.json that read_config reads, and what the family knows of others; those that
  // all models have are known anyway (models/config_keys.h).
  std::vector<formats::KeyRule> config_keys = {};
};

class FamilyRegistration {
 public:
  // Throws InternalError at start-up when the name is taken, or when two families give a setting of
  // the same name different types or ranges.
  explicit FamilyRegistration(Family family);
};

// All registered families, sorted by name.
const std::vector<Family>& Families();
std::vector<std::string> FamilyNames();
const Family* FindFamily(std::string_view name);  // nullptr: there is none

// Calls CompleteSettings with the settings that the family declares.
void Complete(const Family& family, Settings& settings);

// Makes a model from complete settings and lists its parameters.
std::unique_ptr<Model> MakeModel(const Family& family, const Settings& settings);

}  // namespace plimsoll::models
