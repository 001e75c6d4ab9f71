#include "data/texts/text_slots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace plimsoll::data {

TextSlots TextSlotsOf(std::span<const graph::Slot> slots, int64_t sequence, std::string_view source,
                      std::initializer_list<std::string_view> fills) {
  struct Input {
    std::string_view name;
    int rank;
    std::span<int32_t>* values;
  };
  constexpr std::string_view kLabelValues = "label_values";
  TextSlots found;
  const Input inputs[] = {
      {"tokens", 2, &found.tokens},           {"targets", 2, &found.targets},
      {"token_types", 2, &found.token_types}, {"lengths", 1, &found.lengths},
      {"labels", 1, &found.labels},           {"next_sentence", 1, &found.next_sentence}};
  for (const graph::Slot& slot : slots) {
    const graph::Shape& shape = slot.type.shape;
    const Input* const input = std::ranges::find(inputs, slot.name, &Input::name);
    bool filled = std::ranges::find(fills, slot.name) != fills.end();
    if (slot.name == kLabelValues) {
      filled = filled && slot.type.dtype == graph::DType::kFloat32 && shape.rank() <= 2;
    } else {
      filled = filled && input != std::end(inputs) && slot.type.dtype == graph::DType::kInt32 &&
               shape.rank() == input->rank && (input->rank == 1 || shape.dim(1) == sequence);
    }
    if (!filled) {
      throw UserError(
          fmt::format("{} has nothing for the model's input '{}', {}; it fills {} (i32[B,{}], or "
                      "values of each text)",
                      source, slot.name, slot.type.ToString(), fmt::join(fills, ", "), sequence));
    }
    if (slot.name == kLabelValues) {
      found.label_values = slot.values<float>();
    } else {
      *input->values = slot.values<int32_t>();
    }
    if (found.rows != 0 && found.rows != shape.dim(0)) {
      throw InternalError("inputs of one batch with different numbers of rows");
    }
    found.rows = shape.dim(0);
  }
  if (found.tokens.empty()) {
    throw UserError(fmt::format("{} is for models that read tokens", source));
  }
  return found;
}

void RequireLengths(const TextSlots& slots, std::string_view source) {
  if (!slots.lengths.empty()) return;
  throw UserError(
      fmt::format("{} pads short texts, but the model has no input 'lengths' and would "
                  "read the padding as text; set model.padded: true",
                  source));
}

}  // namespace plimsoll::data
