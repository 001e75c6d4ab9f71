// Texts with labels, for models that classify them: from files with one JSON object per line
//
//   {"text": "Well said.", "label": "praise"}                 a class by its name
//   {"text": "It rains.", "text_pair": "The sun shines.", "label": 2}     or by its number, from 0
//
// or from plain text, each document with the name of its file. Further members are ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.h"

namespace plimsoll::data {

struct LabelledText {
  std::string text;
  std::optional<std::string> pair;
  std::string label;  // a name, or a number in decimal
  bool numbered = false;
  std::string where;  // "FILE:LINE", or the file
};

// In the order of the lines. UserErrors name the file and line.
std::vector<LabelledText> ReadLabelledLines(const std::vector<MappedFile>& files);

// The documents of each file that aren't blank, with the file's name, without folders and endings,
// as their label. UserError for a file without any.
std::vector<LabelledText> LabelByFile(const std::vector<MappedFile>& files,
                                      const std::string& delimiter);

// Classes by their numbers.
struct LabelClasses {
  std::vector<std::string> names;
  // The class of a text. UserError, which names the place, when it has none among `names`, or when
  // its number isn't below `most` (0: any).
  int32_t Of(const LabelledText& text, int64_t most) const;
};

// `given`: the names in order; empty: the names of the texts, sorted, or as many numbers as there
// are up to the largest. UserError when some texts have names and others numbers.
LabelClasses ClassesOf(const std::vector<LabelledText>& texts,
                       const std::vector<std::string>& given);

struct LabelledSplit {
  std::vector<LabelledText> train, eval;
};

// Holds out that fraction of each class, rounded, but leaves one text of each to train on; which
// ones and their order is drawn by the seed. UserError when that is none at all.
LabelledSplit SplitByClass(std::vector<LabelledText> texts, double fraction, uint64_t seed);

}  // namespace plimsoll::data
