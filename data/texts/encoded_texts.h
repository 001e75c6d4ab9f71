// Texts, or pairs of texts, as token sequences for models such as BERT. T sequence.
//
//     [CLS] text [SEP]            [CLS] text [SEP] text_pair [SEP]
//
// Sequences are truncated to T tokens as transformers' fast tokenizers do with `longest_first`.
// Tokens are removed at the end, or at the beginning if the tokenizer's files say so
// (truncation_side).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/labels.h"
#include "data/texts/text_settings.h"
#include "data/texts/text_slots.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

struct PairLengths {
  int64_t first = 0, second = 0;
  bool operator==(const PairLengths&) const = default;
};
// Truncates two texts of `first` and `second` tokens to `room` tokens together. The longer text
// loses tokens until both have half of the room. If the room is odd, the originally longer text
// keeps one token more; if both were equally long, the second text does.
PairLengths CutLongestFirst(int64_t first, int64_t second, int64_t room);

class EncodedTexts {
 public:
  // Throws a UserError when a sequence has no room for text between the special tokens.
  static void CheckSequence(int64_t sequence);

  EncodedTexts(MarkerTokens markers, int64_t sequence);

  void Add(const Tokenizer& tokenizer, const std::string& text,
           const std::optional<std::string>& pair, const SampleLabel& label = {});

  int64_t count() const { return std::ssize(texts_); }
  int64_t sequence() const { return sequence_; }
  int64_t truncated() const { return truncated_; }
  double padding() const;  // the share of all positions that are padding

  // Fills a row with text `number`. After the last text, fills it with padding and no label.
  void FillRow(int64_t number, const TextSlots& slots, int64_t row) const;

 private:
  static constexpr int32_t kNoPair = -1;
  struct Text {
    int64_t start = 0;         // offset of the text in ids_
    int32_t first = 0;         // number of tokens of the text
    int32_t second = kNoPair;  // number of tokens of the second text; kNoPair without a second text
  };

  static int64_t LengthOf(const Text& text);
  int64_t Room(bool pair) const;  // the number of text tokens that fit in a sequence

  MarkerTokens markers_;
  int64_t sequence_;
  std::vector<int32_t> ids_;  // token ids of all texts
  std::vector<Text> texts_;
  LabelTable labels_;  // the labels of these texts
  int64_t truncated_ = 0;
  int64_t positions_ = 0;  // the number of positions that are not padding
};

}  // namespace plimsoll::data
