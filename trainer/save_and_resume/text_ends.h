// End-of-text tokens (EOS): which tokens end the texts of a model, and the file next to its weights
// that says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"

namespace plimsoll::trainer {

// eos_token_id of the model's config.json and of generation_config.json in `folder`, each once. The
// file, or the folder's name, may be missing. UserErrors name the file and the key.
std::vector<int32_t> TextEnds(const models::Model& model, const std::string& folder);

// The generation_config.json of a model that began as the one in `folder`: that folder's file, to
// whose ends of texts those of TextEnds and `end`, the tokenizer's, are added. Empty: the folder
// has no such file.
std::string GenerationConfigText(const models::Model& model, const std::string& folder,
                                 std::optional<int32_t> end);

// Writes it next to the model's weights; removes an earlier one if it is empty.
void WriteGenerationConfig(const std::string& text, const std::string& folder);

}  // namespace plimsoll::trainer
