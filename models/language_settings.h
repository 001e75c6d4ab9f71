// The settings by which run files describe language models. They have the names of ModelSpec's
// fields.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/settings.h"

namespace plimsoll::models {

// Names of activations, in the order of `Activation` (models/model_spec.h).
inline constexpr std::array<const char*, 2> kActivations = {"gelu_tanh", "gelu_erf"};

// The settings that several families share. A family changes what differs, for example a default.
std::vector<Setting> LanguageSettings();
// One of these settings by name; throws InternalError for other names. A nonempty `derived`
// replaces the setting's text about its default.
Setting LanguageSetting(const std::string& name, const std::string& derived = "");
// The setting "vocab" for families that read it by VocabularyBeside.
Setting GrowingVocabulary();
Setting WithDefault(Setting setting, SettingValue value);

}  // namespace plimsoll::models
