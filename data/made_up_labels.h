// Random labels of made-up samples, a pure function of seed and sample: "labels" i32[B], a class
// each, and "label_values", of f32[B,C] a 0 or 1 for each class, of f32[B] a standard normal
// number.
#pragma once

#include <cstdint>

#include "graph/slot.h"

namespace plimsoll::data {

bool IsLabels(const graph::Slot& slot);
// The rows of samples from number `first` on; classes are below `classes`, which is at least 1.
void FillLabels(const graph::Slot& slot, int64_t first, int64_t classes, uint64_t seed);

}  // namespace plimsoll::data
