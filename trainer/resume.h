// `plimsoll train --resume`: which snapshot a run goes on from.
#pragma once

#include <optional>
#include <string>

#include "trainer/config/run_config.h"
#include "trainer/ranks.h"

namespace plimsoll::trainer {

// Where a run's snapshots lie.
std::string SnapshotsOf(const std::string& run_directory);

// The folder of the snapshot that `resume` means, nothing for a run that has none. "auto" is the
// newest one of the run's own directory that is whole, and a path is a snapshot, or a run directory
// for its newest one. UserError when a path has none, or when none of those that are there is
// whole. The first rank looks; all call.
std::optional<std::string> FindSnapshot(const std::string& resume, const config::RunConfig& config,
                                        Ranks& ranks);

}  // namespace plimsoll::trainer
