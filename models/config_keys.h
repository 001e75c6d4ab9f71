// What is known of the keys of a model's config.json (formats/key_rules.h).
#pragma once

#include <vector>

#include "formats/key_rules.h"
#include "models/family.h"

namespace plimsoll::models {

// The family's own rules, and those that all of transformers' models have in common. A family
// without Family::read_config reads a member for each of its settings.
std::vector<formats::KeyRule> ConfigKeys(const Family& family);

// Rules of several families' rows Family::config_keys.
std::vector<formats::KeyRule> LanguageKeys();    // of models that continue texts
std::vector<formats::KeyRule> EncoderKeys();     // what ReadEncoder reads
std::vector<formats::KeyRule> ClassifierKeys();  // what ReadClassifier reads

// `to` and `more`, in this order.
std::vector<formats::KeyRule> Joined(std::vector<formats::KeyRule> to,
                                     const std::vector<formats::KeyRule>& more);

}  // namespace plimsoll::models
