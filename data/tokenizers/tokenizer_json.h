// Readers of tokenizer files from text in memory (see tokenizer.h for the files). `name` is the
// file's name for messages, `config` what the other files of its folder say.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_config.h"

namespace plimsoll::data {

// Hugging Face's tokenizer.json.
std::unique_ptr<Tokenizer> ParseTokenizerJson(std::string_view json, const std::string& name,
                                              const TokenizerConfig& config = {});

// GPT-2's encoder.json and vocab.bpe.
std::unique_ptr<Tokenizer> ParseGpt2Files(std::string_view encoder, const std::string& encoder_name,
                                          std::string_view merges, const std::string& merges_name,
                                          const TokenizerConfig& config = {});

}  // namespace plimsoll::data
