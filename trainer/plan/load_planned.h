// Loads the run file that `plimsoll plan` plans.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/load.h"
#include "trainer/plan/plan_command.h"

namespace plimsoll::trainer {

// Loads the run file of a command for as many ranks, with the command's overrides, then `sets`,
// and for the device that it names.
config::Loaded LoadPlanned(const PlanCommand& command, const std::vector<std::string>& sets,
                           const config::RankCount& ranks);

// Loads it for `command.ranks` ranks, with every layout of these that has as many stages as the
// file says: the layout is open but for what the command sets.
config::Loaded LoadRanks(const PlanCommand& command);

}  // namespace plimsoll::trainer
