// Finds the snapshot from which `plimsoll train --resume` continues.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "snapshots/snapshot.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/ranks.h"
#include "trainer/save_and_resume/run_record.h"

namespace plimsoll::trainer {

// The folder of a run's snapshots.
std::string SnapshotsOf(const std::string& run_directory);

// The directory of the run that has written this snapshot.
std::string RunOfSnapshot(const std::string& snapshot);

// The path of the snapshot that `resume` names; nullopt if the run has no snapshot. "auto" is the
// newest undamaged snapshot in the run's own directory. A path is a snapshot, or a run directory,
// which means its newest snapshot. Throws a UserError if a path has no snapshot, or if all its
// snapshots are damaged. The first rank searches; all ranks call this.
std::optional<std::string> FindSnapshot(const std::string& resume, const config::RunConfig& config,
                                        runtime::RankGroup& ranks);

// The snapshot in the run's own directory for a rollback after step `failed`. It is the newest
// undamaged snapshot of the state before a step up to `good`, the last good step. Without such a
// snapshot it is the newest snapshot of the state before `failed`. The first rank searches; all
// ranks call this.
std::optional<std::string> FindGoodSnapshot(const config::RunConfig& config, int64_t good,
                                            int64_t failed, Ranks& ranks);

// The snapshot in the run's own directory after `steps` steps, if it exists and is undamaged.
// Reports a damaged snapshot. The first rank searches; all ranks call this.
std::optional<std::string> FindSnapshotAfter(const config::RunConfig& config, int64_t steps,
                                             Ranks& ranks);

// The snapshot from which a run continues.
struct Resumed {
  // Throws a UserError if the folder `path` does not hold a snapshot of a run.
  Resumed(const std::string& path, const std::string& run_directory);

  snapshots::Snapshot snapshot;
  RunRecord record;
  int64_t step;    // the next step
  bool continues;  // whether the run stays in the same directory; otherwise it branches off
};

}  // namespace plimsoll::trainer
