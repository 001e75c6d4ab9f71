// Splits plain text into documents, and the documents into a training and a held-out part.
//
// Documents end at lines that hold only the delimiter ("%" in fortune files). They are shuffled by
// a seed of their own, so that the held-out part is a fair sample and stays the same when the
// training seed changes. The last `eval_fraction` of them, by count and rounded up, is held out.
// Text without such lines is split within each file: its tail, from the start of a line if there is
// one, is held out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "trainer/text/text_file.h"

namespace plimsoll::data {

struct SplitOptions {
  std::string delimiter;     // a line that separates documents; "": none
  double eval_fraction = 0;  // in [0, 1)
  uint64_t seed = 1;
};

struct DocumentSplit {
  std::vector<std::string_view> train, eval;  // views of the texts given; without delimiter lines
  bool delimited = false;                     // whether any delimiter line was found
};

// UserError when eval_fraction is outside [0, 1) or leaves nothing to train on.
DocumentSplit SplitDocuments(const std::vector<std::string_view>& texts,
                             const SplitOptions& options);

// Appends the documents of `text` that aren't empty; an empty delimiter makes the text one. Returns
// whether a delimiter line was found.
bool AppendDocuments(std::string_view text, std::string_view delimiter,
                     std::vector<std::string_view>* documents);

// Ends a document's text with the delimiter on a line of its own.
void AppendDelimiter(const std::string& delimiter, std::string* text);

// The files that match the shell patterns, sorted by name; a file with several names (links) is
// listed once. Leaves out folders and names whose last part matches one of `exclude`. UserError,
// naming `key`, for a pattern that leaves no file.
std::vector<std::string> ExpandFiles(const std::vector<std::string>& patterns,
                                     const std::vector<std::string>& exclude,
                                     const std::string& key);

// The texts of the files (text_file.h); UserError if all are empty.
std::vector<MappedFile> MapTexts(const std::vector<std::string>& paths, const std::string& key,
                                 const Say& say = {});

}  // namespace plimsoll::data
