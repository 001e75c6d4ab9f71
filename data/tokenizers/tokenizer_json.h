// Readers of tokenizer files in memory (tokenizer.h lists the files). `name` is the file's name for
// messages; `config` has the contents of the folder's other files.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_config.h"

namespace plimsoll::data {

// Reads Hugging Face's tokenizer.json.
std::unique_ptr<Tokenizer> ParseTokenizerJson(std::string_view json, const std::string& name,
                                              const TokenizerConfig& config = {});

// Reads GPT-2's encoder.json and vocab.bpe.
std::unique_ptr<Tokenizer> ParseGpt2Files(std::string_view encoder, const std::string& encoder_name,
                                          std::string_view merges, const std::string& merges_name,
                                          const TokenizerConfig& config = {});

}  // namespace plimsoll::data
