// The inputs from which random ops draw: i32[2], a seed and the number of a draw. Ranks that work
// on the same numbers, or share a tensor by parts, draw from a slot that has the same number on all
// of them; of a part, an op makes the draws that belong to its place in the whole.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/mesh.h"

namespace plimsoll::parallel {

struct RngSlot {
  std::string_view name;               // of the input
  std::vector<std::string_view> axes;  // along which ranks draw differently
};

// All slots.
std::span<const RngSlot> RngSlots();
bool IsRngSlot(std::string_view name);

// In micro-step n, a slot has the number n · scale + offset on a rank. Two ranks that draw
// differently never have the same number, and neither do two micro-steps.
struct DrawNumbers {
  int64_t scale = 1;
  int64_t offset = 0;
};
DrawNumbers DrawNumbersOf(const RngSlot& slot, const MeshPosition& rank);

// Whether ranks of the mesh draw differently from the slot of that name.
bool DrawDifferently(std::string_view slot, const Mesh& mesh);

}  // namespace plimsoll::parallel
