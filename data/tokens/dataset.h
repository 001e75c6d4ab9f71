// Opens the `data:` section: sources to train on and, if the section has any, to evaluate on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/texts/documents.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokens/mixture.h"
#include "data/tokens/token_file.h"
#include "data/tokens/token_source.h"

namespace plimsoll::data {

// Paths or shell patterns, and their weight relative to other such lists (mixture.h).
struct WeightedFiles {
  std::vector<std::string> files;
  double weight = 1;
};

// With a tokenizer, `train` and `eval` are text files or examples (*.jsonl, examples.h), which are
// tokenised into a scratch file when they are opened (scratch_tokens.h). Without a tokenizer they
// are token files, which are mapped.
struct DataOptions {
  std::vector<WeightedFiles> train;
  std::vector<std::string> eval;     // paths or shell patterns
  std::vector<std::string> exclude;  // names left out of train and eval, for example "*.dat"
  bool synthetic = false;            // random tokens instead of files
  TokenFormat format = TokenFormat::kAuto;
  std::string tokenizer;  // see LoadTokenizer; "": the files hold tokens
  // For text: how to split it into documents, and the fraction of `train` that is held out when
  // there is no `eval`.
  SplitOptions split;
  // What becomes of examples. UserError for other text to train on unless they are concatenated.
  Packing packing = Packing::kConcatenate;
  TooLong too_long = TooLong::kTruncate;  // of pairs (split.chats.pairs) not kSplit
  // Documents of text, or of token files, are kept apart: they end with the end-of-text token of
  // `tokenizer`, or of `end_tokenizer` for token files.
  bool documents_apart = false;
  std::string end_tokenizer;
  int64_t vocab = 0;  // the model's
  int64_t sequence =
      0;              // tokens of a sample: of packed rows; and one of synthetic ones is held out
  uint64_t seed = 0;  // of the synthetic tokens
};

// `train` has a part for each of options.train. `eval` has one part, or, if it is held out of
// `train`, as many parts as `train`.
struct DataSet {
  std::vector<MixturePart> train, eval;
  std::string note = {};  // a line about them, indented; empty: none
  // Options that have no effect on these files: "KEY: has no effect: why".
  std::vector<std::string> unused = {};
};

// The tokenizer that options.tokenizer names; nullptr where it names none. UserError, which begins
// with the key, when it can't be read or has more ids than the model.
std::unique_ptr<Tokenizer> LoadTokenizerFor(const DataOptions& options);

// Every token file is a source of its own; the text of a part is one source. UserErrors name the
// key or file.
DataSet OpenData(const DataOptions& options);

// About how many bytes of files OpenData reads.
int64_t BytesOf(const DataOptions& options);
// Throws what OpenData throws, as far as the names, the headers and the beginnings of the files
// show it: nothing is tokenised.
void CheckData(const DataOptions& options);

// Opens these files in full, instead of options.train and options.eval, as one part; `key` names
// them in messages.
MixturePart OpenFiles(const DataOptions& options, const std::vector<std::string>& files,
                      const std::string& key);

}  // namespace plimsoll::data
