// Runs a study. Every run is a process of its own. Runs start in a fixed order, some in parallel,
// until all are done or the user stops the study. Finished runs are not repeated.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "studies/rows.h"
#include "studies/study_directory.h"

namespace plimsoll::studies {

// The index-th run of a row. Its seed is the (index mod number of seeds)-th of the row's seeds.
struct StudyRun {
  size_t row = 0;
  size_t index = 0;
  bool operator==(const StudyRun&) const = default;
};

// All runs that the study asks for: first one run of each row, then the second runs, and so on, so
// that drift affects all rows alike. Within each round, rows are in the order of the study file, or
// in an order derived from order_seed.
std::vector<StudyRun> OrderedRuns(const Study& study, const std::vector<StudyRow>& rows);

// A row whose times vary by more than kSteady is run again, at most this many times.
constexpr int kMostRepeats = 5;

struct RunnerOptions {
  int jobs = 1;  // runs in parallel
  // names for CUDA_VISIBLE_DEVICES; empty means that runs use no GPUs
  std::vector<std::string> gpus;
  bool retry_failed = false;  // repeat runs that failed before
};

struct RunProgress {
  size_t ended = 0, all = 0;  // numbers of runs
  double seconds_left = 0;    // estimated from the times so far
  // Why this run's row runs once more, which raises `all`; empty if the row doesn't.
  std::string repeated = "";
};

struct RunWatcher {
  std::function<bool()> stopped;
  std::function<void(const std::string&)> say;
  // Called when a run has ended.
  std::function<void(const StudyRun& run, const Outcome& outcome, const RunProgress& progress)>
      on_end;
};

// Makes the remaining runs. All use one calibration of the machine, so that predictions for a
// program do not change from run to run. Returns false if `stopped` returned true: then no child
// process is left, and unfinished runs are repeated the next time.
bool RunStudy(const Study& study, const std::vector<StudyRow>& rows,
              const StudyDirectory& directory, const RunnerOptions& options,
              const RunWatcher& watcher);

}  // namespace plimsoll::studies
