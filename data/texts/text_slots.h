// The inputs of models that read complete texts, such as BERT. B samples, T sequence.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "graph/slot.h"

namespace plimsoll::data {

// The source's inputs; all but `tokens` are empty if the model does not have them.
struct TextSlots {
  std::span<int32_t> tokens;         // [B,T]
  std::span<int32_t> targets;        // [B,T]; negative where a position carries no loss
  std::span<int32_t> token_types;    // [B,T]; 1 for a second text and the separator after it
  std::span<int32_t> lengths;        // [B]; positions before the padding, at least 1
  std::span<int32_t> next_sentence;  // [B]; 0: the second text follows the first, 1: it does not
  std::span<int32_t> labels;         // [B]
  std::span<float> label_values;     // [B] or [B,classes]; NaN means no label
  int64_t rows = 0;
};

// Finds the inputs that `source` fills among `slots`. Throws a UserError for an input of another
// name or shape.
TextSlots TextSlotsOf(std::span<const graph::Slot> slots, int64_t sequence, std::string_view source,
                      std::initializer_list<std::string_view> fills);

// Throws a UserError when the model does not read the lengths of padded texts.
void RequireLengths(const TextSlots& slots, std::string_view source);

// A sample's part of an input with `per_row` values for each sample; empty if the input is empty.
template <typename T>
std::span<T> RowOf(std::span<T> values, int64_t row, int64_t per_row) {
  if (values.empty()) return {};
  return values.subspan(static_cast<size_t>(row * per_row), static_cast<size_t>(per_row));
}

}  // namespace plimsoll::data
