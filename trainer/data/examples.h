// Prompts with their answers, for fine-tuning: files with one JSON object per line (*.jsonl).
//
//   {"prompt": "2 + 2 =", "completion": " 4"}     loss on the completion and the end
//   {"text": "2 + 2 = 4"}                         loss on the whole text
//
// "answer" and "response" are other names of "completion". Further members are ignored.
#pragma once

#include <functional>
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

// Calls visit(line, "FILE:NUMBER") for the lines that aren't blank.
void ForEachLine(const std::vector<MappedFile>& files,
                 const std::function<void(std::string_view line, const std::string& where)>& visit);

// The examples in the order of the lines; empty lines are skipped. UserErrors name the file and
// line.
std::vector<Example> ReadExamples(const std::vector<MappedFile>& files);

struct ExampleSplit {
  std::vector<Example> train, eval;
};

// Holds out this fraction of the examples, by count and rounded up, drawn by the seed. UserError
// when none are left to train on.
ExampleSplit SplitExamples(std::vector<Example> examples, double eval_fraction, uint64_t seed);

// Concatenates the examples into a source with a mask. Each example ends with the tokenizer's
// end-of-text token or, if there is none, with `delimiter` on a line of its own (a newline if the
// delimiter is empty). Prompt and completion are encoded separately, so that no token spans both.
SourceList EncodeExamples(const std::vector<Example>& examples, const Tokenizer& tokenizer,
                          const std::string& delimiter, std::string name);

}  // namespace plimsoll::data
