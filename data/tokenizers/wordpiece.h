// WordPiece (Schuster, Nakajima 2012; Wu et al. 2016, section 4.1) as BERT uses it (Devlin et al.
// 2019): a text is cut into words (bert_words.h), and each word, from its beginning, into the
// longest pieces that the vocabulary has. Pieces that go on a word begin with "##". A word that
// cannot be cut so, or that is too long, is the unknown token.
//
// The ids are those of Hugging Face's BertTokenizer without [CLS] and [SEP] around them. Its faster
// sibling BertTokenizerFast gives the same ids for most texts, but leaves cased text as it is (no
// NFC), keeps some characters that are not assigned, and knows another version of Unicode.
//
// Decoded, words are parted by single spaces.
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

// The special tokens of BERT, in the order of new vocabularies.
inline constexpr std::string_view kBertSpecialTokens[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                          "[MASK]"};

struct WordPieceDescription {
  std::vector<std::string>
      tokens;                     // by id; of equal ones the last counts; empty: an id without one
  std::vector<AddedToken> added;  // tokens that a text may spell out
  std::string unknown = "[UNK]";  // one of `tokens`
  BertWordOptions words;
  int64_t longest_word = 100;  // characters; longer words are unknown
};

// `name` is the file, for the UserError when there is no unknown token.
std::unique_ptr<Tokenizer> MakeWordPieceTokenizer(WordPieceDescription description,
                                                  const std::string& name);

// A vocab.txt, one token a line, with what the other files of its folder say; without a
// tokenizer_config.json text is lower-cased. UserErrors name the file and the line or key.
std::unique_ptr<Tokenizer> ParseWordPieceFiles(std::string_view vocab, const std::string& name,
                                               const TokenizerConfig& config);

// A tokenizer.json, called `name`, whose model is WordPiece.
std::unique_ptr<Tokenizer> MakeWordPieceOfJson(const JsonField& file, const std::string& name,
                                               const TokenizerConfig& config);

}  // namespace plimsoll::data
