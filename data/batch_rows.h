// Rows of a batch. The content of a sample depends only on its number, so a source can fill a batch
// row by row, on several threads, and the bits are the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/slot.h"

namespace plimsoll::data {

// The number of rows, which all slots have in common. If the slots differ, returns 1: such a batch
// is filled in one piece.
int64_t RowsOf(std::span<const graph::Slot> slots);

// Makes `part` views of the rows [begin, begin + count) of the slots; a slot that cannot be divided
// is taken complete. Allocates no memory once `part` has been used for these slots.
void TakeRows(std::span<const graph::Slot> slots, int64_t begin, int64_t count,
              std::vector<graph::Slot>& part);

}  // namespace plimsoll::data
