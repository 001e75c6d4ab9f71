// Makes a WordPiece vocabulary of text. The pieces are merged as in byte-pair encoding (Sennrich,
// Haddow, Birch 2016), from characters, by the counts of neighbours in words, which is also what
// Hugging Face's BertWordPieceTokenizer does. (The likelihood of Schuster and Nakajima 2012, for
// which no reference exists, would rank the merges otherwise.)
//
// The vocabulary is
//   1 the special tokens [PAD] [UNK] [CLS] [SEP] [MASK],
//   2 every character of the text, the commonest `characters` of them, in the order of code points,
//   3 those that go on words, with ##, in the same order,
//   4 merges: always the commonest pair of neighbouring pieces; of equally common ones that whose
//     left, then right piece stands first in the vocabulary.
// It depends on the words and their counts alone, in whatever order the text comes.
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
  int64_t size = 30000;       // tokens of the vocabulary, special ones included
  int64_t characters = 1000;  // different characters at most; words with rarer ones are left out
  int64_t least_count = 2;    // of a pair that is merged
  BertWordOptions words = {};
};

// Counts words as the tokenizer will cut them.
class WordCounts {
 public:
  explicit WordCounts(const BertWordOptions& options) : options_(options) {}

  void Add(std::string_view text);
  const std::unordered_map<std::string, int64_t>& words() const { return counts_; }

 private:
  BertWordOptions options_;
  std::unordered_map<std::string, int64_t> counts_;
};

// Tokens by id; fewer than options.size when no pairs are left. `progress` may be empty; it
// receives the number of tokens so far, now and then. UserError when `size` has no room for the
// characters.
std::vector<std::string> TrainWordPieces(const WordCounts& counts, const WordPieceTraining& options,
                                         const std::function<void(int64_t tokens)>& progress = {});

}  // namespace plimsoll::data
