// Families of models: what `model.family` may name. A family registers itself, in its own file,
// with its settings and how a model follows from them; nothing else knows its name.
//
//   const FamilyRegistration kFamily({.name = "bigram", .settings = {…}, .make = …});
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "formats/json.h"
#include "models/model.h"

namespace plimsoll::models {

struct Family {
  std::string name;               // model.family, and config.json's model_type
  std::vector<Setting> settings;  // its keys of the section `model`
  // Fills in what follows from other settings, and throws SettingError where they contradict one
  // another. Rows' default values are there already. Empty: nothing follows.
  std::function<void(Settings&)> complete = {};
  // Of complete settings; its parameters aren't listed yet. SettingError when they describe no
  // model.
  std::function<std::unique_ptr<Model>(const Settings&)> make;
  // Of a folder's config.json. `settings` holds what is said beside the weights, which comes first;
  // what of that isn't said is filled in. Its parameters aren't listed yet. Empty: config.json has
  // a member for each setting, as Model::WriteConfig writes them unless the model writes another
  // form.
  std::function<std::unique_ptr<Model>(const formats::JsonObject&, Settings&)> read_config = {};
};

class FamilyRegistration {
 public:
  // InternalError at start-up when a name is taken, or when two families mean different values by
  // settings of one name.
  explicit FamilyRegistration(Family family);
};

// By name, in alphabetical order.
const std::vector<Family>& Families();
std::vector<std::string> FamilyNames();
const Family* FindFamily(std::string_view name);  // nullptr: there is none

// CompleteSettings by the family's rows.
void Complete(const Family& family, Settings& settings);

// Of complete settings, with its parameters listed.
std::unique_ptr<Model> MakeModel(const Family& family, const Settings& settings);

}  // namespace plimsoll::models
