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
  std::string name = "";  // empty for the only objective
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  double loss_scale = 1;
  int64_t skipped = 0;                    // number of updates skipped so far
  std::optional<CodeShares> codes = {};   // only with amp.fp8.counts
  std::optional<double> loss_limit = {};  // a loss above this limit is a spike
};

struct StepReport {
  int64_t step = 0;
  std::vector<ObjectiveReport> objectives = {{}};
  std::vector<std::pair<std::string, double>> metrics;  // scalar metrics that the model declares
  double step_seconds = 0;
  double data_seconds = 0;  // the main thread's time for the step's data
  double tokens_per_second = 0;
  // Unit of tokens_per_second: "sample" if the model reads no sequences.
  const char* unit = "token";
  // Model FLOPs as a fraction of the device's peak, if the peak is known.
  std::optional<double> mfu;
  int64_t arena_bytes = 0;
  bool planned = true;  // whether the arena holds all tensors on the device
  runtime::AllocatorStats allocator;
  int64_t resident_bytes = 0;
  std::string diverged;  // why the step diverged, and the consequence
  std::optional<RankSpread> ranks;
  std::optional<Energy> energy;  // energy of all ranks, after some seconds of steps
};

class Progress {
 public:
  // Prints lines to stdout, complete if stdout is a file or a pipe. On a terminal a step's line
  // omits its least important parts until it fits, and every step refreshes a live line unless
  // `live` is false (mpirun makes terminals of its own). `first` is this process's first step, if
  // the run was resumed. `steps_per_epoch` is 0 if the run doesn't count epochs.
  Progress(int64_t steps, int64_t first, int64_t log_every, bool live = true,
           double steps_per_epoch = 0);
  ~Progress();

  // Estimates the remaining time from now on, starting with step `first`.
  void Restart(int64_t first);

  void Step(const StepReport& report);
  // Whether `step` prints a permanent line.
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
