// The settings of language models, by which run files describe them. They have the names of
// ModelSpec's fields.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/settings.h"

namespace plimsoll::models {

// By `Activation` (models/model_spec.h).
inline constexpr std::array<const char*, 2> kActivations = {"gelu_tanh", "gelu_erf"};

// Those that several families have. A family changes what differs, such as how a default is found.
std::vector<Setting> LanguageSettings();
// One of them, by name; InternalError for other names. `derived` takes the place of its own, unless empty.
Setting LanguageSetting(const std::string& name, const std::string& derived = "");
// "vocab" of families that read it by VocabularyBeside.
Setting GrowingVocabulary();
Setting WithDefault(Setting setting, SettingValue value);

}  // namespace plimsoll::models
