#include "parallel/rng_slots.h"

#include <algorithm>

#include "base/axes.h"

namespace plimsoll::parallel {

std::span<const RngSlot> RngSlots() {
  static const std::vector<RngSlot> slots = {
      {"update_rng", {}},    // all ranks draw the same numbers for the same tensors
      {"rng", {kDataAxis}},  // each data rank draws different numbers
  };
  return slots;
}

bool IsRngSlot(std::string_view name) {
  return std::ranges::find(RngSlots(), name, &RngSlot::name) != RngSlots().end();
}

DrawNumbers DrawNumbersOf(const RngSlot& slot, const MeshPosition& rank) {
  DrawNumbers numbers;
  for (const std::string_view axis : slot.axes) {
    numbers.scale *= rank.ranks(axis);
    numbers.offset = numbers.offset * rank.ranks(axis) + rank.at(axis);
  }
  return numbers;
}

bool DrawDifferently(std::string_view slot, const Mesh& mesh) {
  const std::span<const RngSlot> slots = RngSlots();
  const auto found = std::ranges::find(slots, slot, &RngSlot::name);
  return found != slots.end() && std::ranges::any_of(found->axes, [&](std::string_view axis) {
           return mesh.ranks(axis) > 1;
         });
}

}  // namespace plimsoll::parallel
