// Runs a study: every run a process of its own, in a fixed order, some side by side, until all are
// done or the user stops it. What was done before is not done again.
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

// All runs that the study asks for: the first of all rows, then the second, so that what drifts
// falls on all rows alike, and among these the rows as written or in an order that follows from
// order_seed.
std::vector<StudyRun> OrderedRuns(const Study& study, const std::vector<StudyRow>& rows);

// A row whose times vary by more than kSteady is run again, at most so often.
constexpr int kMostRepeats = 5;

struct RunnerOptions {
  int jobs = 1;                   // runs side by side
  std::vector<std::string> gpus;  // what CUDA_VISIBLE_DEVICES may name; empty: no GPUs
  bool retry_failed = false;      // also run what failed before
  std::string calibration;        // folder of what is known of this machine
};

class Runner {
 public:
  // Called when a run has ended, with how many have of all of them, and the seconds left by what
  // they took so far.
  using OnEnd = std::function<void(const StudyRun& run, const Outcome& outcome, size_t ended,
                                   size_t all, double seconds_left)>;
  // All arguments outlive the runner.
  Runner(const Study& study, const std::vector<StudyRow>& rows, const StudyDirectory& directory,
         const RunnerOptions& options);
  ~Runner();

  // How many runs are still to be made, and how many of them share another's losses.
  size_t left() const { return runs_.size(); }
  size_t left_sharing() const;

  // False when `stopped` said so: then no child is left, and what they had begun is done again the
  // next time.
  bool Run(const std::function<bool()>& stopped, const OnEnd& on_end);

 private:
  struct Active;
  void StartNext();
  bool StartOne();  // false: nothing can be started now
  // A number for all runs that claim the same losses (RowFacts::numbers and the seed); -1: it
  // claims none.
  int ClaimOf(const StudyRun& run) const;
  // Has another run to be done first, whose losses this one may share?
  bool Waits(const StudyRun& run) const;
  int64_t StepsOf(const StudyRun& run) const;
  // Notes a run that is done.
  void CountDone(const StudyRun& run, int64_t steps);
  bool IsUnsteady(size_t row) const;
  // Queues a further run of the row where its times vary.
  void Repeat(size_t row);
  void StartPass(Active& active);
  // How the run ended, once it has; starts its next pass where there is one.
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
  const int64_t shared_steps_;  // of a run whose curve another one has
  RunnerOptions options_;
  std::vector<StudyRun> runs_;            // still to be started, the next one first
  std::vector<bool> failed_;              // rows of which no further run is made
  std::vector<size_t> made_;              // runs of each row that are done
  std::vector<std::vector<int>> claims_;  // by row and seed
  // Claims of which a run came to the end, and the steps of one that shares its curve.
  std::map<int, int64_t> whole_;
  std::vector<std::unique_ptr<Active>> active_;
  std::vector<std::string> free_gpus_;
  size_t all_ = 0, ended_ = 0;
  std::vector<double> seconds_;  // that runs took
};

}  // namespace plimsoll::studies
