// `plimsoll plan`: the memory plan of a run, without running it.
#pragma once

#include "trainer/config/load.h"

namespace plimsoll::trainer {

// Prints parameters, gradients, optimizer state, activations and workspace, the peak, the arena and
// its fragmentation, FLOPs a step; as JSON when `json`. Opens no data and allocates no arena.
void PrintPlan(const config::Loaded& loaded, bool json);

}  // namespace plimsoll::trainer
