// Writes a tokenizer's files next to a model's weights, so that transformers' AutoTokenizer loads
// it from the model's folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

struct CopiedTokenizer {
  std::map<std::string, std::string> copies = {};  // maps a file's transformers name to its source
  // The text of tokenizer_config.json. Empty if `copies` has this file, or if there is no tokenizer
  // to copy.
  std::string config = {};
  // The text of chat_template.jinja, which replaces a copy. Empty if the tokenizer's own template
  // is valid.
  std::string chat_template = {};
  std::optional<int32_t> end = {};  // the token that ends texts
  // If the run's texts begin without the token that the tokenizer asks for: a line that says so.
  std::string begins = {};

  std::vector<std::string> Names() const;
};

// The tokenizer files for this model. `tokenizer` is a name as in data.tokenizer; `data` says how
// the run's texts begin and end. `chat_template`
// is the template that rendered chats; empty means the tokenizer's own. There are no files to copy
// if the tokenizer is "byte" or empty, because transformers has no such tokenizer. Throws a
// UserError if it cannot be read, or does not fit the model.
CopiedTokenizer CopiedTokenizerFor(const models::Model& model, const std::string& tokenizer,
                                   const config::DataConfig& data,
                                   const std::string& chat_template = "");

// Whether a tokenizer's file, or a folder of its files, can have this name.
bool IsTokenizerFile(const std::string& name);

// Writes the files to the model's folder, replacing files of the same names.
void WriteTokenizerFiles(const CopiedTokenizer& files, const std::string& folder);

}  // namespace plimsoll::trainer
