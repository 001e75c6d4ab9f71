// `plimsoll train --resume`: the snapshot that a run continues from.
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

// The directory of the run that has written the snapshot in that folder.
std::string RunOfSnapshot(const std::string& snapshot);

// The folder of the snapshot that `resume` names; nothing for a run that has none. "auto" is the
// newest undamaged snapshot in the run's own directory; a path is a snapshot, or a run directory
// for its newest one. UserError when a path has none, or when all snapshots are damaged. The first
// rank looks; all ranks call.
std::optional<std::string> FindSnapshot(const std::string& resume, const config::RunConfig& config,
                                        runtime::RankGroup& ranks);

// The snapshot in the run's own directory that a training goes back to when step `failed` must not
// count: the newest undamaged snapshot of the state before a step up to `good`, which went well; if
// there is none, of the state before `failed`. The first rank looks; all ranks call.
std::optional<std::string> FindGoodSnapshot(const config::RunConfig& config, int64_t good,
                                            int64_t failed, Ranks& ranks);

// The snapshot in the run's own directory after `steps` steps, if it exists and is undamaged; a
// damaged one is named. The first rank looks; all ranks call.
std::optional<std::string> FindSnapshotAfter(const config::RunConfig& config, int64_t steps,
                                             Ranks& ranks);

// The snapshot that a run continues from.
struct Resumed {
  // UserError when the folder `path` holds no snapshot of a run.
  Resumed(const std::string& path, const std::string& run_directory);

  snapshots::Snapshot snapshot;
  RunRecord record;
  int64_t step;    // the next step
  bool continues;  // in the same directory; otherwise the run is a branch
};

}  // namespace plimsoll::trainer
