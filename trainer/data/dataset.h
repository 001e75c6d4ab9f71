// The `data:` section, opened: sources to train on and, where there are any, to evaluate on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/documents.h"
#include "trainer/data/mixture.h"
#include "trainer/data/token_file.h"
#include "trainer/data/token_source.h"

namespace plimsoll::data {

// Paths or shell patterns, and their weight beside other such lists (mixture.h).
struct WeightedFiles {
  std::vector<std::string> files;
  double weight = 1;
};

// With a tokenizer, `train` and `eval` are text files, or examples (*.jsonl, examples.h), tokenised
// when they are opened: bytes are kept as they are, other tokens take 4 bytes each. Without one
// they are token files, mapped.
struct DataOptions {
  std::vector<WeightedFiles> train;
  std::vector<std::string> eval;     // paths or shell patterns
  std::vector<std::string> exclude;  // names left out of both, for example "*.dat"
  bool synthetic = false;            // random tokens in place of files
  TokenFormat format = TokenFormat::kAuto;
  std::string tokenizer;  // see LoadTokenizer; "": the files hold tokens
  // Of text: its documents, and how many of `train` are held out when there is no `eval`.
  SplitOptions split;
  int64_t vocab = 0;  // the model's
  uint64_t seed = 0;  // of the synthetic tokens
};

// A part for each of options.train. Of `eval` one, or, where it is held out of these, as many
// again.
struct DataSet {
  std::vector<MixturePart> train, eval;
};

// Every token file is a source of its own; the text of a part makes one source. UserErrors name the
// key or file.
DataSet OpenData(const DataOptions& options);

// These files alone, whole, in place of options.train and options.eval; `key` names them in
// messages.
SourceList OpenFiles(const DataOptions& options, const std::vector<std::string>& files,
                     const std::string& key);

}  // namespace plimsoll::data
