// Texts with labels, for models that classify them: from files with one JSON object per line
//
//   {"text": "Well said.", "label": "praise"}
//   {"text": "It rains.", "text_pair": "The sun shines.", "label": 2}
//
// (labels.h has the forms of labels), or from plain text, each document with the name of its file.
// Further members are ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "data/labels.h"

namespace plimsoll::data {

struct LabelledText {
  std::string text;
  std::optional<std::string> pair;
  GivenLabel label;
};

// In the order of the lines. UserErrors name the file and line, also of labels of another kind.
std::vector<LabelledText> ReadLabelledLines(const std::vector<MappedFile>& files, LabelKind kind);

// The documents of each file that aren't blank, with the file's name, without folders and endings,
// as their label. UserError for a file without any.
std::vector<LabelledText> LabelByFile(const std::vector<MappedFile>& files,
                                      const std::string& delimiter);

struct LabelledSplit {
  std::vector<LabelledText> train, eval;
};

// Holds out that fraction of each class (of all texts, if `kind` is another than kClass), rounded,
// but leaves one text of each to train on; which ones and their order is drawn by the seed.
// UserError when that is none at all.
LabelledSplit SplitByClass(std::vector<LabelledText> texts, LabelKind kind, double fraction,
                           uint64_t seed);

}  // namespace plimsoll::data
