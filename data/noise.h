// The input "noise" f32[B,D] of generative models: standard normal numbers, a pure function of seed
// and sample.
#pragma once

#include <cstdint>

#include "graph/slot.h"

namespace plimsoll::data {

bool IsNoise(const graph::Slot& slot);
// Fills the rows of the samples from number `first` on.
void FillNoise(const graph::Slot& slot, int64_t first, uint64_t seed);

}  // namespace plimsoll::data
