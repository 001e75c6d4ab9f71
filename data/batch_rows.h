// Rows of a batch: as the content of a sample depends on its number alone, a source can fill a
// batch row by row, on several threads, with the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/slot.h"

namespace plimsoll::data {

// The number of rows that all slots have. 1, if they differ: such a batch is filled as a whole.
int64_t RowsOf(std::span<const graph::Slot> slots);

// Makes `part` the rows [begin, begin + count) of the slots, in their memory: all rows of slots
// that cannot be divided. Asks for no memory once `part` has been used for these slots.
void TakeRows(std::span<const graph::Slot> slots, int64_t begin, int64_t count,
              std::vector<graph::Slot>& part);

}  // namespace plimsoll::data
