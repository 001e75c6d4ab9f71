// The inputs from which random ops draw: i32[2], a seed and the number of a draw. A slot is such an
// input. Ranks that compute the same values, or that each have a shard of one tensor, read the same
// draw number from their slot. For a shard, an op makes the draws that belong to the shard's
// position in the full tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/mesh.h"

namespace plimsoll::parallel {

struct RngSlot {
  std::string_view name;               // the input's name
  std::vector<std::string_view> axes;  // the axes along which ranks draw differently
};

// All slots.
std::span<const RngSlot> RngSlots();
bool IsRngSlot(std::string_view name);

// The number of a slot on a rank in micro-step n is n · scale + offset. Two ranks that draw
// differently never have the same number, and two micro-steps never do.
struct DrawNumbers {
  int64_t scale = 1;
  int64_t offset = 0;
};
DrawNumbers DrawNumbersOf(const RngSlot& slot, const MeshPosition& rank);

// Whether ranks of the mesh draw different numbers from the slot with that name.
bool DrawDifferently(std::string_view slot, const Mesh& mesh);

}  // namespace plimsoll::parallel
