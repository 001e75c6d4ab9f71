// `plimsoll train`: the loop.
#pragma once

#include "trainer/config/load.h"

namespace plimsoll::trainer {

// Trains as configured and fills the run directory. UserErrors before the first step leave nothing
// behind.
void Train(const config::Loaded& loaded);

}  // namespace plimsoll::trainer
