// The settings that text sources share with token data: the files, how they are split into
// documents, what is held out, and the tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokens/dataset.h"

namespace plimsoll::data {

// The settings train, eval, exclude, tokenizer, eval_fraction and document_separator.
std::vector<Setting> TextFileSettings();

// True if some samples are held out.
bool HoldsOutText(const Settings& settings);

// The files that these settings name, for a model with that vocabulary (0 means any vocabulary).
DataOptions TextFilesFrom(const Settings& settings, int64_t vocab);

// The special token ids in the sequences of models such as BERT.
struct MarkerTokens {
  int32_t pad = 0, start = 0, separator = 0, mask = 0;
  std::vector<int32_t> special;  // these four and the unknown token, sorted
};

// The special tokens of a tokenizer: those that its files name, or else [PAD], [CLS], [SEP] and
// [MASK] (BERT), or <pad>, <s>, </s> and <mask> (RoBERTa). Throws a SettingError about `tokenizer`,
// calling it `name`, when a token is missing, or when padding would be placed before a text.
// `needs_mask`: whether a missing mask token is an error.
MarkerTokens MarkersOf(const Tokenizer& tokenizer, const std::string& name, bool needs_mask);

}  // namespace plimsoll::data
