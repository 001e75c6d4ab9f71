// Prompts with their answers, for fine-tuning: files with one JSON object per line (*.jsonl).
//
//   {"prompt": "2 + 2 =", "completion": " 4"}     loss on the completion and the end
//   {"text": "2 + 2 = 4"}                         loss on the whole text
//
// "answer" and "response" are other names of "completion". Further members are ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/mapped_file.h"
#include "data/texts/documents.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

bool HoldsExamples(std::string_view path);  // by its name: *.jsonl or *.ndjson, also compressed

// Calls visit(line, "FILE:NUMBER") for the lines that aren't blank. Gives back what it has read.
void ForEachLine(const MappedFile& file,
                 FunctionRef<void(std::string_view line, const std::string& where)> visit);

// The lines with examples, in order; blank lines are skipped. UserErrors name the file and line.
std::shared_ptr<const DocumentIndex> FindExamples(const std::vector<MappedFile>& files);

// Checks the first line with an example in the beginning of a file's text, if it is there as a
// whole. Throws what FindExamples throws.
void CheckFirstExample(std::string_view start, const std::string& path);

// The ids of the examples, one after the other; those of prompts carry no loss. Each example ends
// with the tokenizer's end-of-text token or, if there is none, with `delimiter` on a line of its
// own (a newline if the delimiter is empty). Prompt and completion are encoded separately, so that
// no token spans both. The sink's `text_bytes` are above 0 in the last call for an example, and 0
// in the calls before it: so it knows where examples end. `name`: of the files, for messages.
void EncodeExamples(
    const DocumentList& lines, const Tokenizer& tokenizer, const std::string& delimiter,
    const std::string& name,
    FunctionRef<void(std::span<const int32_t> ids, int64_t text_bytes, bool carries_loss)> sink);

}  // namespace plimsoll::data
