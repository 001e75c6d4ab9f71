// metrics.jsonl and samples.jsonl of a run directory, read back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/record/energy_windows.h"

namespace plimsoll::trainer {

// The held-out loss after `step` steps.
struct Evaluation {
  int64_t step = 0;
  double loss = 0;
  bool operator==(const Evaluation&) const = default;
};

struct RunMetrics {
  // By step, from the first step. A step without targets has the loss of the step before it.
  std::vector<double> loss;
  std::vector<double> step_ms;
  std::vector<double> data_ms;  // of these, for data; empty: the run was made before they were told
  std::vector<Evaluation> evaluations;
  // The most that any rank's process held on its device, in the steps that were logged.
  std::optional<int64_t> most_rank_bytes;
  // The most that the driver counted for the first rank's process on its GPU.
  std::optional<int64_t> most_gpu_bytes;
  int64_t skipped = 0;
  int64_t without_targets = 0;  // steps
  std::vector<Energy> energy;   // of the windows, in their order
};

// The functions below skip an incomplete last line, as a killed run leaves one, and ignore members
// that this program does not know. UserError, naming file and line, at a line that is no row of
// metrics.
//
// ReadMetrics throws UserError also when there is no such file.
RunMetrics ReadMetrics(const std::string& path);

// The lines that precede the continuation of a run after `steps` steps, unchanged: those of steps
// before `steps`, of evaluations after at most `evaluated` steps, and of the first `rollbacks`
// rollbacks. None when there is no such file.
std::vector<std::string> LinesUntil(const std::string& path, int64_t steps, int64_t evaluated,
                                    int64_t rollbacks);

// The same for samples.jsonl: the samples after at most `steps` steps.
std::vector<std::string> SamplesUntil(const std::string& path, int64_t steps);

// The first evaluation with the lowest finite loss; nothing where there is none.
std::optional<Evaluation> BestEvaluation(const RunMetrics& metrics);

// The mean of the windows; nothing where energy was not measured.
std::optional<Energy> MeanEnergy(const RunMetrics& metrics);

// The times of the steps that count: without the first `warmup`, if there are more. And of these
// the times for data.
std::vector<double> MeasuredSteps(const RunMetrics& metrics, int64_t warmup);
std::vector<double> MeasuredDataTimes(const RunMetrics& metrics, int64_t warmup);

}  // namespace plimsoll::trainer
