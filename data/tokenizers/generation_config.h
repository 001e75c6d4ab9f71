// End-of-text tokens (EOS) of a model: which tokens end texts, as the files of a model's folder say
// it: eos_token_id of config.json and of generation_config.json.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/key_rules.h"

namespace plimsoll::data {

inline constexpr const char* kGenerationFile = "generation_config.json";

// What Plimsoll knows of the keys of generation_config.json.
std::span<const formats::KeyRule> GenerationConfigRules();

// eos_token_id of either file: a number, a list or nothing. UserError when it is none of these.
std::vector<int64_t> EndTokensOf(const formats::JsonObject& file);

// A folder's generation_config.json, the keys of which are known; an empty object where there is no
// such file. UserErrors name the file and the key.
formats::JsonObject ReadGenerationConfig(const std::string& folder);

// Those of config.json, then those of generation_config.json, each once. Either may be missing.
std::vector<int64_t> EndTokensIn(const std::string& folder);

}  // namespace plimsoll::data
