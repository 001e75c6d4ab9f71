// `plimsoll train --resume`: which snapshot a run goes on from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "snapshots/snapshot.h"
#include "trainer/config/run_config.h"
#include "trainer/settle/ranks.h"
#include "trainer/snapshot/run_record.h"

namespace plimsoll::trainer {

// Where a run's snapshots lie.
std::string SnapshotsOf(const std::string& run_directory);

// The folder of the snapshot that `resume` means, nothing for a run that has none. "auto" is the
// newest one of the run's own directory that is whole, and a path is a snapshot, or a run directory
// for its newest one. UserError when a path has none, or when none of those that are there is
// whole. The first rank looks; all call.
std::optional<std::string> FindSnapshot(const std::string& resume, const config::RunConfig& config,
                                        Ranks& ranks);

// The snapshot in the run's own directory that a training goes back to when `failed` is a step that
// must not count: the newest whole one of the state before a step up to `good`, which went well; if
// there is none, of the state before `failed`. The first rank looks; all call.
std::optional<std::string> FindGoodSnapshot(const config::RunConfig& config, int64_t good,
                                            int64_t failed, Ranks& ranks);

// The snapshot in the run's own directory of the state after so many steps, if it is there and
// whole; a damaged one is named. The first rank looks; all call.
std::optional<std::string> FindSnapshotAfter(const config::RunConfig& config, int64_t steps,
                                             Ranks& ranks);

// The snapshot that a run goes on from.
struct Resumed {
  // UserError when the folder `path` holds no snapshot of a run.
  Resumed(const std::string& path, const std::string& run_directory);

  snapshots::Snapshot snapshot;
  RunRecord record;
  int64_t step;    // that is made next
  bool continues;  // in the same directory; otherwise it makes a branch
};

}  // namespace plimsoll::trainer
