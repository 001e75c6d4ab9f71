// The keys that sources of text share with token data, for their tables of settings: which files,
// how they are cut into documents, what is held out, and the tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokens/dataset.h"

namespace plimsoll::data {

// train, eval, exclude, tokenizer, eval_fraction, document_separator.
std::vector<Setting> TextFileSettings();

// True if samples are held out.
bool HoldsOutText(const Settings& settings);

// The files that these settings name, to be opened for a model with that vocabulary (0: any).
DataOptions TextFilesFrom(const Settings& settings, int64_t vocab);

// Ids with a meaning of their own in the sequences of models such as BERT.
struct MarkerTokens {
  int32_t pad = 0, start = 0, separator = 0, mask = 0;
  std::vector<int32_t> special;  // all of them and the unknown token, in order
};

// Of a tokenizer that has them: those that its files name, or else [PAD], [CLS], [SEP] and [MASK]
// (BERT), or <pad>, <s>, </s> and <mask> (RoBERTa). SettingError about `tokenizer`, which is called
// `name`, when one is missing, or when padding would go before a text; `needs_mask`: the mask
// counts.
MarkerTokens MarkersOf(const Tokenizer& tokenizer, const std::string& name, bool needs_mask);

}  // namespace plimsoll::data
