// The tokens that transformers (5.24) puts before a text: what a call of the tokenizer that
// AutoTokenizer loads from a folder adds by default (add_special_tokens).
//
// Next to a tokenizer.json, its post_processor decides, and add_bos_token of tokenizer_config.json
// has no effect. Two classes decide otherwise: CodeLlamaTokenizer always puts its bos_token before
// a text, and GPTNeoXTokenizer never does. Without a tokenizer.json, add_bos_token decides.
//
// A run may do without them, and name another token for the end of texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/json_field.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_config.h"

namespace plimsoll::data {

// `post_processor`: that of a tokenizer.json, which may lack it. UserErrors name the field
// that is not supported.
std::vector<int32_t> BeginTokens(const JsonField& post_processor, const TokenizerConfig& config,
                                 const TokenizerFacts& facts);

// The tokens before a text of a tokenizer without a tokenizer.json.
std::vector<int32_t> BeginTokens(const TokenizerConfig& config, const TokenizerFacts& facts);

// How texts begin and end, by the keys of the section `data`.
struct TextTokens {
  bool begins = true;    // data.begin: whether the tokenizer's begin tokens are put before texts
  std::string end = {};  // data.end: the token that ends texts; empty: the tokenizer's own
};
// Makes the tokenizer's facts those. Returns a line, without a line end, that says with which token
// texts begin, or which one is left out; empty if the tokenizer asks for none. Throws a UserError
// that begins with data.end if the vocabulary lacks that token.
std::string Apply(const TextTokens& tokens, Tokenizer& tokenizer);

}  // namespace plimsoll::data
