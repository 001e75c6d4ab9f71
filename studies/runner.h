// Runs a study: every run is a process of its own, in a fixed order, some in parallel, until all
// are done or the user stops it. Finished runs are not repeated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "studies/configure.h"
#include "studies/process.h"
#include "studies/study_directory.h"

namespace plimsoll::studies {

// The index-th run of a row: it has the (index mod number of seeds)-th of its seeds.
struct StudyRun {
  size_t row = 0;
  size_t index = 0;
  bool operator==(const StudyRun&) const = default;
};

// All runs that the study asks for: first one run of each row, then the second ones, so that drift
// affects all rows alike. Within these, the rows are in the order as written or in an order that
// follows from order_seed.
std::vector<StudyRun> OrderedRuns(const Study& study, const std::vector<StudyRow>& rows);

// A row whose times vary by more than kSteady is run again, at most this many times.
constexpr int kMostRepeats = 5;

struct RunnerOptions {
  int jobs = 1;                   // runs in parallel
  std::vector<std::string> gpus;  // names for CUDA_VISIBLE_DEVICES; empty: no GPUs
  bool retry_failed = false;      // repeat runs that failed before
  std::string calibration;        // folder with calibrations of this machine
};

class Runner {
 public:
  // Called when a run has ended.
  struct Progress {
    size_t ended = 0, all = 0;  // runs
    double seconds_left = 0;    // by the times so far
    std::string repeated = "";  // why `all` has grown by this run: its row runs again; empty: no
  };
  using OnEnd =
      std::function<void(const StudyRun& run, const Outcome& outcome, const Progress& progress)>;
  // All arguments must outlive the runner.
  Runner(const Study& study, const std::vector<StudyRow>& rows, const StudyDirectory& directory,
         const RunnerOptions& options);
  ~Runner();

  // The number of remaining runs, and how many of them share another run's losses.
  size_t left() const { return runs_.size(); }
  size_t left_sharing() const;

  // False when `stopped` returned true: then no child is left, and unfinished runs are repeated the
  // next time.
  bool Run(const std::function<bool()>& stopped, const OnEnd& on_end);

 private:
  struct Active;
  void StartNext();
  bool StartOne();  // false: nothing can be started now
  // A number shared by all runs that claim the same losses (RowFacts::numbers and the seed); -1: no
  // claim.
  int ClaimOf(const StudyRun& run) const;
  // True if another run must finish first, whose losses this one may share.
  bool Waits(const StudyRun& run) const;
  int64_t StepsOf(const StudyRun& run) const;
  // Records that a run is done.
  void CountDone(const StudyRun& run, int64_t steps);
  double VariationOf(size_t row) const;  // of its steps; 0: not known
  // Queues another run of the row if its times vary, and says why; empty: they don't, or have been
  // given enough runs.
  std::string Repeat(size_t row);
  void StartPass(Active& active);
  // The outcome once the run has ended; starts its next pass if there is one.
  std::optional<Outcome> Look(Active& active);
  Outcome Failure(const Active& active, const ProcessEnd& end) const;
  bool Advance(Active& active);  // false: there is no further pass
  void End(Active& active, const Outcome& outcome, const OnEnd& on_end);
  std::vector<std::string> Arguments(const Active& active) const;
  std::string PassDirectory(const Active& active) const;
  bool SkipsRow(size_t row) const { return failed_[row]; }

  const Study& study_;
  const std::vector<StudyRow>& rows_;
  const StudyDirectory& directory_;
  const int64_t shared_steps_;  // of a run that shares another's curve
  RunnerOptions options_;
  std::vector<StudyRun> runs_;            // still to be started, the next one first
  std::vector<bool> failed_;              // rows that get no more runs
  std::vector<size_t> made_;              // finished runs of each row
  std::vector<std::vector<int>> claims_;  // by row and seed
  // Claims with a complete run, and the number of steps for a run that shares its curve.
  std::map<int, int64_t> whole_;
  std::vector<std::unique_ptr<Active>> active_;
  std::vector<std::string> free_gpus_;
  size_t all_ = 0, ended_ = 0;
  std::vector<double> seconds_;  // of the finished runs
};

}  // namespace plimsoll::studies
