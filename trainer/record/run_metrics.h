// Reads back metrics.jsonl and samples.jsonl of a run directory.
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
  // The loss of each step, from the first step on. A step without targets repeats the loss of the
  // step before it.
  std::vector<double> loss;
  std::vector<double> step_ms;
  std::vector<double> data_ms;  // for each step, the time for data; empty if the run's program
                                // version did not measure it
  std::vector<Evaluation> evaluations;
  // The most bytes that any rank's process held on its device, in the logged steps.
  std::optional<int64_t> most_rank_bytes;
  // The most bytes that the driver counted for the first rank's process on its GPU.
  std::optional<int64_t> most_gpu_bytes;
  int64_t skipped = 0;
  int64_t without_targets = 0;  // number of steps without targets
  std::vector<Energy> energy;   // energy of each window, in order
};

// The functions below skip an incomplete last line, which a killed run leaves, and ignore members
// that this program does not know. They throw a UserError with file and line for a line that is not
// a row of metrics.
//
// ReadMetrics also throws a UserError if the file does not exist.
RunMetrics ReadMetrics(const std::string& path);

// The lines that a run keeps, unchanged, when it continues after `steps` steps: of steps before
// `steps`, of evaluations after at most `evaluated` steps, and of the first `rollbacks` rollbacks.
// Empty if the file does not exist.
std::vector<std::string> LinesUntil(const std::string& path, int64_t steps, int64_t evaluated,
                                    int64_t rollbacks);

// The lines of samples.jsonl that the run keeps: of samples after at most `steps` steps.
std::vector<std::string> SamplesUntil(const std::string& path, int64_t steps);

// The first evaluation with the lowest finite loss; nullopt if no loss is finite.
std::optional<Evaluation> BestEvaluation(const RunMetrics& metrics);

// The mean energy over the windows; nullopt if energy was not measured.
std::optional<Energy> MeanEnergy(const RunMetrics& metrics);

// MeasuredSteps: the step times without the first `warmup` steps, unless there are no other steps.
// MeasuredDataTimes: the time for data in the same steps.
std::vector<double> MeasuredSteps(const RunMetrics& metrics, int64_t warmup);
std::vector<double> MeasuredDataTimes(const RunMetrics& metrics, int64_t warmup);

}  // namespace plimsoll::trainer
