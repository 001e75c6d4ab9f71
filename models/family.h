// Families of models: the values of `model.family`. A family registers itself, in its own file,
// with its settings and the functions that make a model from them; no other code knows its name.
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
  std::string name;               // model.family in run files, and model_type in config.json
  std::vector<Setting> settings;  // its keys in the section `model`
  // Fills in settings that follow from other settings, and throws SettingError if settings
  // contradict each other. The defaults of `settings` are already filled in. Empty: no setting
  // follows from others.
  std::function<void(Settings&)> complete = {};
  // Makes a model from complete settings, without listing its parameters. Throws SettingError when
  // the settings describe no model.
  std::function<std::unique_ptr<Model>(const Settings&)> make;
  // Makes a model from a folder's config.json, without listing its parameters. `settings` holds the
  // settings that the run gives in addition to the weights; they take precedence, and the function
  // fills in the others. Empty: config.json has a key for each setting, as Model::WriteConfig
  // writes it by default.
  std::function<std::unique_ptr<Model>(const formats::JsonObject&, Settings&)> read_config = {};
  // Rules for the keys of config.json that read_config reads, and for others that the family knows.
  // Keys of all models have general rules (models/config_keys.h).
  std::vector<formats::KeyRule> config_keys = {};
};

class FamilyRegistration {
 public:
  // Throws InternalError at start-up when the name is already used, or when two families declare a
  // setting of the same name with different types or ranges.
  explicit FamilyRegistration(Family family);
};

// All registered families, sorted by name.
const std::vector<Family>& Families();
std::vector<std::string> FamilyNames();
const Family* FindFamily(std::string_view name);  // nullptr if no such family exists

// Calls CompleteSettings with the settings that the family declares.
void Complete(const Family& family, Settings& settings);

// Makes a model from complete settings and lists its parameters.
std::unique_ptr<Model> MakeModel(const Family& family, const Settings& settings);

}  // namespace plimsoll::models
