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
  std::optional<double> tokens_per_step = {};  // a mean, without padding; nothing: TokensPerStep
  std::optional<int64_t> budget_bytes = {}, arena_budget_bytes = {};  // from memory.budget
  std::string chosen = {};  // by the budget solver; empty: no choice was left to it
  std::optional<double> predicted_step_seconds = {};
  std::optional<int64_t> predicted_process_bytes = {};  // on a GPU; next, the actual bytes
  std::optional<int64_t> process_bytes = {};
  std::optional<int64_t> used_bytes = {};  // of the arena, where canaries were laid
  // The best evaluation, if train.monitor names another metric than the loss.
  struct Monitored {
    std::string metric;
    double best = 0;
    int64_t step = 0;  // steps before it
  };
  std::optional<Monitored> monitored = {};
  std::string energy_counts = {};   // what the energy counter counts
  std::string energy_problem = {};  // why there is no energy
};

// Steps at the start of a run that are excluded from timing.
inline constexpr int64_t kWarmupSteps = 3;

// The tokens of a step on all ranks together, without padding that does not count.
double TokensPerStep(const RunResult& result);

nlohmann::ordered_json RunSummary(const RunResult& result);

// Bytes that a step copies from the device to the host: activations, and the optimizer's state.
int64_t OffloadedBytes(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
