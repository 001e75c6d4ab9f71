// End-of-text tokens (EOS): the tokens that end a model's texts, and the file next to its weights
// that lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/save_and_resume/run_record.h"

namespace plimsoll::trainer {

// The values of eos_token_id in the model's config.json and in generation_config.json in `folder`,
// each once. The file, or the folder's name, may be missing. UserErrors name the file and the key.
std::vector<int32_t> TextEnds(const models::Model& model, const std::string& folder);

// data.end of the run that wrote a snapshot; empty if it chose no end.
std::string EndOfRun(const RunRecord& record, const std::string& snapshot);

// The generation_config.json for a model that was initialized from `folder`: that folder's file,
// with the tokens of TextEnds and the tokenizer's `end` added. Empty means that no file is needed:
// the folder has none, and the model's config.json lists the end.
std::string GenerationConfigText(const models::Model& model, const std::string& folder,
                                 std::optional<int32_t> end);

// Writes generation_config.json next to the model's weights. If the text is empty, removes an
// earlier file.
void WriteGenerationConfig(const std::string& text, const std::string& folder);

}  // namespace plimsoll::trainer
