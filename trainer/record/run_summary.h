// summary.json of a run directory: the settings, cost and result of a run, for `plimsoll report`,
// studies and other programs (docs/how/summary.md lists its members).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "trainer/config/run_config.h"
#include "trainer/record/run_metrics.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// The facts known at the end of a run.
struct RunResult {
  Session& session;
  const models::Model& model;
  const config::RunConfig& config;
  const RunMetrics& metrics;
  int ranks = 1;
  // Mean without padding; nullopt means TokensPerStep(compile options).
  std::optional<double> tokens_per_step = {};
  // Limits that memory.budget sets.
  std::optional<int64_t> budget_bytes = {}, arena_budget_bytes = {};
  std::string chosen = {};  // the budget solver's choices; empty if it had none to make
  std::optional<double> predicted_step_seconds = {};
  // Only for a GPU. process_bytes is the measurement of this prediction.
  std::optional<int64_t> predicted_process_bytes = {};
  std::optional<int64_t> process_bytes = {};
  std::optional<int64_t> used_bytes = {};  // used bytes of the arena, if canaries measured them
  // The best evaluation, if train.monitor names a metric other than the loss.
  struct Monitored {
    std::string metric;
    double best = 0;
    int64_t step = 0;  // number of steps before the best evaluation
  };
  std::optional<Monitored> monitored = {};
  std::string energy_counts = {};   // the parts whose energy the counter counts
  std::string energy_problem = {};  // why energy is not measured
};

// Steps at the start of a run that are excluded from timing.
inline constexpr int64_t kWarmupSteps = 3;

// The tokens of a step on all ranks together, without padding that does not count.
double TokensPerStep(const RunResult& result);

nlohmann::ordered_json RunSummary(const RunResult& result);

// The bytes of activations and optimizer state that a step copies from the device to the host.
int64_t OffloadedBytes(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
