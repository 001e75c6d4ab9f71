// End-of-text tokens (EOS) of a model: the eos_token_id in config.json and generation_config.json
// of the model's folder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/key_rules.h"

namespace plimsoll::data {

inline constexpr const char* kGenerationFile = "generation_config.json";

// Rules for the keys of generation_config.json.
std::span<const formats::KeyRule> GenerationConfigRules();

// Reads eos_token_id of either file: a number, a list or nothing. Throws a UserError for other
// values.
std::vector<int64_t> EndTokensOf(const formats::JsonObject& file);

// Reads a folder's generation_config.json and checks its keys. Returns an empty object if the file
// does not exist. UserErrors name the file and the key.
formats::JsonObject ReadGenerationConfig(const std::string& folder);

// The end tokens of config.json, followed by those of generation_config.json, without duplicates.
// Either file may be missing.
std::vector<int64_t> EndTokensIn(const std::string& folder);

}  // namespace plimsoll::data
