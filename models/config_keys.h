// Rules for the keys of a model's config.json (formats/key_rules.h).
#pragma once

#include <vector>

#include "formats/key_rules.h"
#include "models/family.h"

namespace plimsoll::models {

// Returns the family's own rules, and the rules for keys that all of transformers' models share. If
// the family has no Family::read_config, each of its settings is a key that is read.
std::vector<formats::KeyRule> ConfigKeys(const Family& family);

// Rules that several families use in Family::config_keys.
std::vector<formats::KeyRule> LanguageKeys();    // for decoders
std::vector<formats::KeyRule> EncoderKeys();     // keys that ReadEncoder reads
std::vector<formats::KeyRule> ClassifierKeys();  // keys that ReadClassifier reads

// Returns `to`, followed by `more`.
std::vector<formats::KeyRule> Joined(std::vector<formats::KeyRule> to,
                                     const std::vector<formats::KeyRule>& more);

}  // namespace plimsoll::models
