// `plimsoll train`: the loop.
#pragma once

#include <optional>

#include "runtime/world.h"
#include "trainer/config/load.h"
#include "trainer/run_profiler.h"

namespace plimsoll::trainer {

// Trains as configured and fills the run directory. UserErrors before the first step leave nothing
// behind. With `profile`, these steps are timed node by node (trainer/run_profiler.h).
void Train(const config::Loaded& loaded, runtime::World& world,
           const std::optional<ProfiledSteps>& profile = std::nullopt);

}  // namespace plimsoll::trainer
