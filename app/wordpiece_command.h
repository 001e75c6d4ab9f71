// The command `plimsoll data wordpiece`: makes a WordPiece vocabulary of text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/texts/text_file.h"
#include "data/tokenizers/wordpiece_training.h"

namespace plimsoll::data {

struct WordPieceOptions {
  std::vector<std::string> inputs;   // text files, or shell patterns for them
  std::vector<std::string> exclude;  // names to leave out, for example "*.dat"
  std::string separator;             // lines that part documents, which are not counted
  bool cased = false;                // keeps upper case and accents
  WordPieceTraining training;        // its `words` follow from `cased`
  std::string out;                   // folder, made if need be
  bool overwrite = false;
};

struct WordPieceResult {
  std::string vocabulary;  // OUT/vocab.txt
  int64_t tokens = 0;      // in it
  int64_t bytes = 0;       // of text
  int64_t words = 0;       // different ones
};

// Writes OUT/vocab.txt and OUT/tokenizer_config.json, which data.tokenizer and transformers'
// BertTokenizer read. The same text gives the same bytes. UserErrors: nothing to read, no words, an
// OUT that cannot be written or holds a vocabulary, a size that has no room for the characters.
WordPieceResult MakeWordPieces(const WordPieceOptions& options, const Say& say);

}  // namespace plimsoll::data
