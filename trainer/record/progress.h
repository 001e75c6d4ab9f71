// The output of a training run: one line per logged step; on a terminal a live line below it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/terminal.h"
#include "runtime/allocator_stats.h"
#include "trainer/record/energy_windows.h"
#include "trainer/record/rank_spread.h"
#include "trainer/step/metrics.h"

namespace plimsoll::trainer {

// The report of one objective.
struct ObjectiveReport {
  std::string name = "";  // empty: the only one
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  double loss_scale = 1;
  int64_t skipped = 0;                    // updates so far
  std::optional<CodeShares> codes = {};   // with amp.fp8.counts
  std::optional<double> loss_limit = {};  // a loss beyond it is a spike
};

struct StepReport {
  int64_t step = 0;
  std::vector<ObjectiveReport> objectives = {{}};
  std::vector<std::pair<std::string, double>> metrics;  // scalars that the model declares
  double step_seconds = 0;
  double data_seconds = 0;  // of the thread that makes the steps, for the step's data
  double tokens_per_second = 0;
  const char* unit = "token";  // what these are: "sample" of a model that reads no sequences
  std::optional<double> mfu;   // share of the device's peak, where the peak is known
  int64_t arena_bytes = 0;
  bool planned = true;  // the arena is all that tensors take on the device
  runtime::AllocatorStats allocator;
  int64_t resident_bytes = 0;
  std::string diverged;  // what was wrong with the step, and what was done about it
  std::optional<RankSpread> ranks;
  std::optional<Energy> energy;  // of all ranks, once some seconds of steps are measured
};

class Progress {
 public:
  // Lines go to stdout, in full if that is a file or a pipe. On a terminal the lines of steps drop
  // their least important parts until they fit, and every step refreshes a live line, unless `live`
  // is false: mpirun makes terminals of its own. `first`: the first step of this process, if the
  // run was resumed. `steps_per_epoch`: 0 where the run doesn't count epochs.
  Progress(int64_t steps, int64_t first, int64_t log_every, bool live = true,
           double steps_per_epoch = 0);
  ~Progress();

  // Estimates the remaining time from now on, beginning with that step.
  void Restart(int64_t first);

  void Step(const StepReport& report);
  // True if that step has a line that stays.
  bool Logs(int64_t step) const;
  // Prints a separate line between the steps' lines.
  void Line(const std::string& text);
  void Warn(const std::string& text);

 private:
  // A part of a step's line; parts with a higher rank are dropped first.
  struct Part {
    std::string text;
    int rank = 0;
  };
  std::vector<Part> PartsOf(const StepReport& report) const;
  std::string Format(const StepReport& report) const;
  void ClearLive();

  int64_t steps_;
  int64_t first_;
  int64_t log_every_;
  Terminal terminal_;
  bool live_ = false;
  double steps_per_epoch_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_live_;
};

}  // namespace plimsoll::trainer
