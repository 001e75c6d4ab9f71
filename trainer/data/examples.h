// Prompts with their answers, for fine-tuning: files of one JSON object a line (*.jsonl).
//
//   {"prompt": "2 + 2 =", "completion": " 4"}     the loss is the completion's and the end's
//   {"text": "2 + 2 = 4"}                         the loss is that of the whole text
//
// "answer" and "response" are other names of the completion. Further members are left alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "trainer/data/token_source.h"
#include "trainer/text/tokenizer.h"

namespace plimsoll::data {

struct Example {
  std::string prompt;      // without loss; empty: there is none
  std::string completion;  // with loss
};

bool HoldsExamples(std::string_view path);  // by its name: *.jsonl, also compressed

// In the order of the lines; empty lines are passed over. UserErrors name the file and the line.
std::vector<Example> ReadExamples(const std::vector<MappedFile>& files);

struct ExampleSplit {
  std::vector<Example> train, eval;
};

// Holds out that share of the examples, by count and rounded up, drawn by the seed. UserError when
// it leaves none to train on.
ExampleSplit SplitExamples(std::vector<Example> examples, double eval_fraction, uint64_t seed);

// The examples one after the other as a source with a mask, each ended by the tokenizer's
// end-of-text token or, where it has none, by `delimiter` on a line of its own (a newline where
// that is empty). Prompt and completion are encoded apart, so that no token belongs to both.
SourceList EncodeExamples(const std::vector<Example>& examples, const Tokenizer& tokenizer,
                          const std::string& delimiter, std::string name);

}  // namespace plimsoll::data
