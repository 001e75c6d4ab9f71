// Texts, or pairs of texts, as the sequences that models such as BERT read. T sequence.
//
//     [CLS] text [SEP]            [CLS] text [SEP] text_pair [SEP]
//
// cut to T tokens as transformers' fast tokenizers do with `longest_first`. Tokens leave at the
// end, or at the beginning if the tokenizer's files say so (truncation_side).
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
// The tokens that two texts keep of `first` and `second` where there is room for `room`: the longer
// one loses tokens until both have half of the room. Of an odd room the text that was longer has
// one more, the second if they were equally long.
PairLengths CutLongestFirst(int64_t first, int64_t second, int64_t room);

class EncodedTexts {
 public:
  // UserError when a sequence has no room for text between the special tokens.
  static void CheckSequence(int64_t sequence);

  EncodedTexts(MarkerTokens markers, int64_t sequence);

  void Add(const Tokenizer& tokenizer, const std::string& text,
           const std::optional<std::string>& pair, const SampleLabel& label = {});

  int64_t count() const { return std::ssize(texts_); }
  int64_t sequence() const { return sequence_; }
  int64_t truncated() const { return truncated_; }
  double padding() const;  // the share of all positions

  // Fills a row with text `number`; beyond the last text: with padding, without label.
  void FillRow(int64_t number, const TextSlots& slots, int64_t row) const;

 private:
  static constexpr int32_t kNoPair = -1;
  struct Text {
    int64_t start = 0;         // in ids_
    int32_t first = 0;         // tokens of the text
    int32_t second = kNoPair;  // of its pair
  };

  static int64_t LengthOf(const Text& text);
  int64_t Room(bool pair) const;  // for tokens of text

  MarkerTokens markers_;
  int64_t sequence_;
  std::vector<int32_t> ids_;  // of all texts
  std::vector<Text> texts_;
  LabelTable labels_;  // of the same texts
  int64_t truncated_ = 0;
  int64_t positions_ = 0;  // that aren't padding
};

}  // namespace plimsoll::data
