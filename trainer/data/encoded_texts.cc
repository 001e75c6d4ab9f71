#include "trainer/data/encoded_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"

namespace plimsoll::data {

void EncodedTexts::CheckSequence(int64_t sequence) {
  if (sequence >= 5) return;
  throw UserError(fmt::format(
      "model.sequence: {} leaves no room for text between the special tokens; give 5 or "
      "more",
      sequence));
}

EncodedTexts::EncodedTexts(MarkerTokens markers, int64_t sequence)
    : markers_(std::move(markers)), sequence_(sequence) {}

void EncodedTexts::Add(const Tokenizer& tokenizer, const std::string& text,
                       const std::optional<std::string>& pair, int32_t label) {
  std::vector<int32_t> first = tokenizer.Encode(text);
  std::vector<int32_t> second = pair ? tokenizer.Encode(*pair) : std::vector<int32_t>();
  Truncate(pair.has_value(), first, second);
  texts_.push_back({.start = std::ssize(ids_),
                    .first = static_cast<int32_t>(first.size()),
                    .second = pair ? static_cast<int32_t>(second.size()) : kNoPair,
                    .label = label});
  ids_.insert(ids_.end(), first.begin(), first.end());
  ids_.insert(ids_.end(), second.begin(), second.end());
  positions_ += LengthOf(texts_.back());
}

double EncodedTexts::padding() const {
  return 1 - static_cast<double>(positions_) / static_cast<double>(count() * sequence_);
}

void EncodedTexts::FillRow(int64_t number, const TextSlots& slots, int64_t row) const {
  const Text text = number < count() ? texts_[static_cast<size_t>(number)] : Text();
  const int64_t length = number < count() ? LengthOf(text) : 0;
  const std::span<int32_t> tokens = RowOf(slots.tokens, row, sequence_);
  std::ranges::fill(tokens, markers_.pad);
  if (length > 0) {
    const auto ids = ids_.begin() + text.start;
    tokens[0] = markers_.start;
    auto next = std::copy_n(ids, text.first, tokens.begin() + 1);
    *next++ = markers_.separator;
    if (text.second != kNoPair) {
      *std::copy_n(ids + text.first, text.second, next) = markers_.separator;
    }
  }
  const std::span<int32_t> types = RowOf(slots.token_types, row, sequence_);
  std::ranges::fill(types, 0);
  if (!types.empty() && text.second != kNoPair) {
    std::fill(types.begin() + text.first + 2, types.begin() + length, 1);
  }
  std::ranges::fill(RowOf(slots.lengths, row, 1),
                    static_cast<int32_t>(std::max<int64_t>(length, 1)));
  std::ranges::fill(RowOf(slots.labels, row, 1), text.label);
}

int64_t EncodedTexts::LengthOf(const Text& text) {
  return text.first + 2 + (text.second == kNoPair ? 0 : text.second + 1);
}

void EncodedTexts::Truncate(bool pair, std::vector<int32_t>& first, std::vector<int32_t>& second) {
  const auto room = static_cast<size_t>(sequence_ - (pair ? 3 : 2));
  if (first.size() + second.size() <= room) return;
  ++truncated_;
  if (!pair) return first.resize(room);
  // What remains when tokens leave one after the other.
  const size_t shorter = std::min(first.size(), second.size());
  const size_t half = room / 2;
  if (shorter <= half) {
    (first.size() > second.size() ? first : second).resize(room - shorter);
  } else {
    first.resize(room - half);
    second.resize(half);
  }
}

}  // namespace plimsoll::data
