// The commands `plimsoll data tokenize` and `plimsoll data inspect`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/texts/documents.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokens/token_file.h"

namespace plimsoll::data {

struct TokenizeOptions {
  std::vector<std::string> inputs;   // of text or of examples (open_texts.h), or shell patterns
  std::vector<std::string> exclude;  // names to leave out, for example "*.dat"
  std::string tokenizer = "byte";    // see LoadTokenizer
  std::string out;                   // folder, made if need be
  SplitOptions split;                // an eval_fraction of 0 writes no held-out files
  bool end_of_text = true;           // put the tokenizer's end-of-text token after each text
  bool header = false;               // llm.c's form instead of plain ids
  int64_t shard_tokens = 100'000'000;
  bool overwrite = false;
};

struct TokenizeResult {
  std::vector<std::string> train_files, eval_files;
  int64_t train_tokens = 0, eval_tokens = 0, bytes = 0;
  int64_t ignored_tokens = 0;  // of both: those of prompts, which carry no loss
  int width = 2;               // bytes a token
};

// Writes OUT/train_000000.bin, … and OUT/val_000000.bin, …; all appear together at the end, and
// none if anything fails; next to each file with tokens of prompts FILE.mask (token_file.h). If
// text was cut into documents and the tokenizer has no end-of-text token (bytes), the delimiter
// lines stay in the text. Progress lines go to `say`, which may be empty. UserErrors: nothing to
// read, a tokenizer that cannot be loaded, an OUT that cannot be written or already holds such
// files.
TokenizeResult Tokenize(const TokenizeOptions& options, const Say& say);

struct TokenFileSummary {
  std::string path;
  bool header = false;
  int width = 2;
  int64_t tokens = 0;
  int64_t masked = 0;  // tokens that carry no loss as targets
  uint32_t max_id = 0;
  std::vector<int32_t> first;  // ids
  std::string first_text;      // decoded, if a tokenizer was given
  std::string ToString() const;
};

// `tokenizer` may be null.
TokenFileSummary InspectTokenFile(const std::string& path, const TokenFileOptions& options,
                                  const Tokenizer* tokenizer, int64_t first = 32);

}  // namespace plimsoll::data
