#include "trainer/data/text_slots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace plimsoll::data {

TextSlots TextSlotsOf(std::span<const graph::Slot> slots, int64_t sequence, std::string_view source,
                      std::initializer_list<std::string_view> fills) {
  TextSlots found;
  const std::pair<std::string_view, std::span<int32_t>*> known[] = {
      {"tokens", &found.tokens},
      {"targets", &found.targets},
      {"token_types", &found.token_types},
      {"lengths", &found.lengths},
      {"next_sentence", &found.next_sentence},
      {"labels", &found.labels}};
  for (const graph::Slot& slot : slots) {
    const graph::Shape& shape = slot.type.shape;
    const auto named =
        std::ranges::find(known, slot.name, [](const auto& one) { return one.first; });
    const bool wanted =
        named != std::end(known) && std::ranges::find(fills, slot.name) != fills.end();
    const bool by_row = named >= known + 3;
    if (!wanted || slot.type.dtype != graph::DType::kInt32 || shape.rank() != (by_row ? 1 : 2) ||
        (!by_row && shape.dim(1) != sequence)) {
      throw UserError(
          fmt::format("{} has nothing for the model's input '{}', {}; it fills {} (i32[B,{}], or "
                      "i32[B] of a value for each text)",
                      source, slot.name, slot.type.ToString(), fmt::join(fills, ", "), sequence));
    }
    *named->second = slot.values<int32_t>();
    if (found.rows != 0 && found.rows != shape.dim(0)) {
      throw InternalError("inputs of one batch with different numbers of rows");
    }
    found.rows = shape.dim(0);
  }
  if (found.tokens.empty()) {
    throw UserError(
        fmt::format("{} is for models that read tokens, which this one "
                    "does not",
                    source));
  }
  return found;
}

}  // namespace plimsoll::data
