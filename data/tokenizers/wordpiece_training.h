// Makes a WordPiece vocabulary from text. Pieces are merged as in byte-pair encoding (Sennrich,
// Haddow, Birch 2016): starting from characters, by the counts of adjacent pieces in words. Hugging
// Face's BertWordPieceTokenizer does the same. (The likelihood of Schuster and Nakajima 2012, for
// which no reference implementation exists, would rank the merges differently.)
//
// The vocabulary consists of
//   1 the special tokens [PAD] [UNK] [CLS] [SEP] [MASK],
//   2 the text's `characters` most frequent characters, in the order of code points,
//   3 those of them that continue words, with ##, in the same order,
//   4 merges: always of the most frequent pair of adjacent pieces; among equally frequent pairs,
//   the
//     one whose left, then right piece is first in the vocabulary.
// It depends only on the words and their counts, not on the order of the text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/bert_words.h"

namespace plimsoll::data {

struct WordPieceTraining {
  int64_t size = 30000;       // tokens of the vocabulary, including special ones
  int64_t characters = 1000;  // the most different characters; words with rarer ones are left out
  int64_t least_count = 2;    // smallest count of a pair that is merged
  BertWordOptions words = {};
};

// Counts the words into which the tokenizer will split text.
class WordCounts {
 public:
  explicit WordCounts(const BertWordOptions& options) : options_(options) {}

  void Add(std::string_view text);
  const std::unordered_map<std::string, int64_t>& words() const { return counts_; }

 private:
  BertWordOptions options_;
  std::unordered_map<std::string, int64_t> counts_;
};

// Returns the tokens by id; fewer than options.size if no pairs are left. `progress`, which may be
// empty, regularly receives the number of tokens so far. Throws a UserError when `size` has no room
// for the characters.
std::vector<std::string> TrainWordPieces(const WordCounts& counts, const WordPieceTraining& options,
                                         const std::function<void(int64_t tokens)>& progress = {});

}  // namespace plimsoll::data
