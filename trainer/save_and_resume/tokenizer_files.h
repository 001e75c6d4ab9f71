// A tokenizer's files beside a model's weights, so that transformers' AutoTokenizer loads it from
// the model's folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"

namespace plimsoll::trainer {

struct CopiedTokenizer {
  std::map<std::string, std::string> copies = {};  // files to copy, by the names for transformers
  // What tokenizer_config.json says; empty where a copy says it, or where there is no tokenizer.
  std::string config = {};
  // chat_template.jinja, in place of a copy; empty where the tokenizer's own holds.
  std::string chat_template = {};
  std::optional<int32_t> end = {};  // the token that ends its texts

  std::vector<std::string> Names() const;
};

// Of a tokenizer that is named as in data.tokenizer, for this model; chats were rendered by the
// text `chat_template`, if it is not empty. No other files where the tokenizer is "byte" or empty,
// since transformers has no such tokenizer. UserError when it cannot be read, or is another
// model's.
CopiedTokenizer CopiedTokenizerFor(const models::Model& model, const std::string& tokenizer,
                                   const std::string& chat_template = "");

// True of a name that such a file, or a folder of such files, can have.
bool IsTokenizerFile(const std::string& name);

// Writes them into the model's folder, in place of those that are there.
void WriteTokenizerFiles(const CopiedTokenizer& files, const std::string& folder);

}  // namespace plimsoll::trainer
