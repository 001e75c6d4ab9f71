#include "data/texts/encoded_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"

namespace plimsoll::data {
namespace {

void Cut(std::vector<int32_t>& ids, int64_t size, bool left) {
  if (left) ids.erase(ids.begin(), ids.end() - size);
  ids.resize(static_cast<size_t>(size));
}

}  // namespace

PairLengths CutLongestFirst(int64_t first, int64_t second, int64_t room) {
  if (first + second <= room) return {first, second};
  const int64_t shorter = std::min({first, second, room / 2});
  const int64_t longer = room - shorter;
  return first > second ? PairLengths{longer, shorter} : PairLengths{shorter, longer};
}

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
                       const std::optional<std::string>& pair, const SampleLabel& label) {
  std::vector<int32_t> first = tokenizer.Encode(text);
  std::vector<int32_t> second = pair ? tokenizer.Encode(*pair) : std::vector<int32_t>();
  const bool left = tokenizer.facts().cuts_left;
  if (std::ssize(first) + std::ssize(second) > Room(pair.has_value())) {
    ++truncated_;
    const auto [of_first, of_second] =
        CutLongestFirst(std::ssize(first), std::ssize(second), Room(pair.has_value()));
    Cut(first, of_first, left);
    Cut(second, of_second, left);
  }
  texts_.push_back({.start = std::ssize(ids_),
                    .first = static_cast<int32_t>(first.size()),
                    .second = pair ? static_cast<int32_t>(second.size()) : kNoPair});
  labels_.Add(label);
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
  std::ranges::fill(RowOf(slots.labels, row, 1), labels_.number(number));
  labels_.FillValues(number,
                     RowOf(slots.label_values, row, std::ssize(slots.label_values) / slots.rows));
}

int64_t EncodedTexts::LengthOf(const Text& text) {
  return text.first + 2 + (text.second == kNoPair ? 0 : text.second + 1);
}

int64_t EncodedTexts::Room(bool pair) const { return sequence_ - (pair ? 3 : 2); }

}  // namespace plimsoll::data
