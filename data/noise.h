// The input "noise" f32[B,D] of models that make samples of it: numbers of the standard normal
// distribution, a pure function of seed and sample.
#pragma once

#include <cstdint>

#include "graph/slot.h"

namespace plimsoll::data {

bool IsNoise(const graph::Slot& slot);
// The rows of samples from number `first` on.
void FillNoise(const graph::Slot& slot, int64_t first, uint64_t seed);

}  // namespace plimsoll::data
