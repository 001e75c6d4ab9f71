// Runs a study: every run a process of its own, in a fixed order, some side by side, until all are
// done or the user stops it. What was done before is not done again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "studies/configure.h"
#include "studies/process.h"
#include "studies/study_directory.h"

namespace plimsoll::studies {

struct StudyRun {
  size_t row = 0;
  int64_t repeat = 0;
  bool operator==(const StudyRun&) const = default;
};

// All runs of the study: repeat by repeat, so that what drifts falls on all rows alike, and within
// each the rows as written or in an order that follows from order_seed.
std::vector<StudyRun> OrderedRuns(const Study& study, size_t rows);

struct RunnerOptions {
  int jobs = 1;                   // runs side by side
  std::vector<std::string> gpus;  // what CUDA_VISIBLE_DEVICES may name; empty: no GPUs
  bool retry_failed = false;      // also run what failed before
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

  // How many runs are still to be made.
  size_t left() const;

  // False when `stopped` said so: then no child is left, and what they had begun is done again the
  // next time.
  bool Run(const std::function<bool()>& stopped, const OnEnd& on_end);

 private:
  struct Active;
  void StartNext();
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
  RunnerOptions options_;
  std::vector<StudyRun> runs_;  // still to be started, the next one last
  std::vector<bool> failed_;    // rows of which no further run is made
  std::vector<std::unique_ptr<Active>> active_;
  std::vector<std::string> free_gpus_;
  size_t all_ = 0, ended_ = 0;
  std::vector<double> seconds_;  // that runs took
};

}  // namespace plimsoll::studies
