// The inputs by which random ops draw: i32[2], a seed and the number of a draw. Ranks that work on
// the same numbers draw alike, by a slot that has one number on all of them.
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

// All of them.
std::span<const RngSlot> RngSlots();

// In micro-step n a slot has the number n · scale + offset on a rank: no two ranks that draw
// differently, and no two micro-steps, have one number.
struct DrawNumbers {
  int64_t scale = 1;
  int64_t offset = 0;
};
DrawNumbers DrawNumbersOf(const RngSlot& slot, const MeshPosition& rank);

// Do ranks of the mesh draw differently by the slot of that name?
bool DrawDifferently(std::string_view slot, const Mesh& mesh);

}  // namespace plimsoll::parallel
