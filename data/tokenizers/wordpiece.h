// WordPiece (Schuster, Nakajima 2012; Wu et al. 2016, section 4.1) as BERT uses it (Devlin et al.
// 2019). A text is split into words (bert_words.h), and each word, from its beginning, into the
// longest pieces of the vocabulary. Pieces that continue a word begin with "##". A word that cannot
// be split so, or that is too long, becomes the unknown token.
//
// The ids are those of Hugging Face's BertTokenizer without [CLS] and [SEP] around them. The faster
// BertTokenizerFast gives the same ids for most texts, but does not apply NFC to cased text, keeps
// some unassigned characters, and uses another version of Unicode.
//
// In decoded text, words are separated by single spaces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/added_token_finder.h"
#include "data/tokenizers/bert_words.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_config.h"

namespace plimsoll::data {

inline constexpr std::string_view kContinuation = "##";

// BERT's special tokens, in the order in which new vocabularies begin with them.
inline constexpr std::string_view kBertSpecialTokens[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                          "[MASK]"};

struct WordPieceDescription {
  std::vector<std::string>
      tokens;  // by id; empty: an unused id; if a token occurs twice, the last id counts
  std::vector<AddedToken> added;  // tokens that may be spelled out in a text
  std::string unknown = "[UNK]";  // must be one of `tokens`
  BertWordOptions words;
  int64_t longest_word = 100;  // in characters; longer words are unknown
};

// `name` is the file's name, for the UserError when the unknown token is missing.
std::unique_ptr<Tokenizer> MakeWordPieceTokenizer(WordPieceDescription description,
                                                  const std::string& name);

// Reads a vocab.txt, with one token on each line, and the settings in the folder's other files.
// Without a tokenizer_config.json, text is lower-cased. UserErrors name the file and the line or
// key.
std::unique_ptr<Tokenizer> ParseWordPieceFiles(std::string_view vocab, const std::string& name,
                                               const TokenizerConfig& config);

// Makes the tokenizer from a tokenizer.json, called `name`, whose model is WordPiece.
std::unique_ptr<Tokenizer> MakeWordPieceOfJson(const JsonField& file, const std::string& name,
                                               const TokenizerConfig& config);

}  // namespace plimsoll::data
