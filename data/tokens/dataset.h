// Opens the data of the section `data:`: training sources and, if the section has any, evaluation
// sources.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/texts/documents.h"
#include "data/tokenizers/begin_tokens.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokens/mixture.h"
#include "data/tokens/token_file.h"
#include "data/tokens/token_source.h"

namespace plimsoll::data {

// A list of paths or shell patterns, and its weight relative to the other lists (mixture.h).
struct WeightedFiles {
  std::vector<std::string> files;
  double weight = 1;
};

// With a tokenizer, `train` and `eval` are files of text or examples (*.jsonl, examples.h). They
// are tokenised into a scratch file when they are opened (scratch_tokens.h). Without a tokenizer
// they are token files, which are mapped.
struct DataOptions {
  std::vector<WeightedFiles> train;
  std::vector<std::string> eval;  // paths or shell patterns
  // File names to leave out of train and eval, for example "*.dat".
  std::vector<std::string> exclude;
  bool synthetic = false;  // random tokens instead of files
  TokenFormat format = TokenFormat::kAuto;
  std::string tokenizer;  // see LoadTokenizer; "" means that the files contain tokens
  // For text: how to split it into documents, and the fraction of `train` that is held out if there
  // is no `eval`.
  SplitOptions split;
  // How examples are packed into rows. Other training text only allows kConcatenate (UserError).
  Packing packing = Packing::kConcatenate;
  TooLong too_long = TooLong::kTruncate;  // may not be kSplit for pairs (split.chats.pairs)
  // Attention does not cross documents, of text or of token files: they end with the end-of-text
  // token of `tokenizer`, or of `end_tokenizer` for token files.
  bool documents_apart = false;
  std::string end_tokenizer;
  TextTokens text_tokens;  // how texts begin and end
  int64_t vocab = 0;       // the model's vocabulary
  int64_t sequence = 0;    // tokens in a sample of packed rows; synthetic data hold out one sample
  uint64_t seed = 0;       // seed of synthetic tokens
};

// `train` has a part for each of options.train. `eval` has a single part or, if it is held out of
// `train`, as many parts as `train`.
struct DataSet {
  std::vector<MixturePart> train, eval;
  std::vector<std::string> notes = {};  // lines about the data, without line ends
  // Warnings that begin with a key, as in "KEY: has no effect: why".
  std::vector<std::string> warnings = {};
  // Examples that are left out, as in "40 of 5000 examples of data.train cannot be read …".
  std::vector<std::string> unread = {};
  bool has_chats = false;  // whether any of the files holds chats
};

// Loads the tokenizer that options.tokenizer names; nullptr if options.tokenizer is empty. A
// UserError begins with the key when the tokenizer cannot be read or has more ids than the model.
std::unique_ptr<Tokenizer> LoadTokenizerFor(const DataOptions& options);

// Opens the data. Every token file becomes a source; the text of a part becomes a single source.
// UserErrors name the key or file.
DataSet OpenData(const DataOptions& options);

// The approximate size of the files that OpenData reads, in bytes.
int64_t BytesOf(const DataOptions& options);
// Throws the errors of OpenData that the names, the headers and the beginnings of the files show.
// Tokenises nothing.
void CheckData(const DataOptions& options);

// Opens these files in full as the evaluation's only part, instead of options.train and
// options.eval. `key` names them in messages.
DataSet OpenFiles(const DataOptions& options, const std::vector<std::string>& files,
                  const std::string& key);

}  // namespace plimsoll::data
