// Texts that a user names for predictions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/language/predictor.h"

namespace plimsoll::trainer {

struct InputText {
  InputPlace place;
  std::string text;
  std::optional<std::string> pair = {};
};

// The lines of the files that aren't blank, each a text or two with a tab between; of *.jsonl the
// members "text" and "text_pair" (data/texts/labelled_texts.h), whatever the labels. Of a folder,
// all of its files. In place of files, the texts given with --text. UserErrors name file and line.
std::vector<InputText> ReadInputTexts(const PredictCommand& command);

}  // namespace plimsoll::trainer
