// summary.json of a run directory: what the run was, what it cost and where it came to, for
// `plimsoll report`, studies and other programs (docs/ablations.md lists its members).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "trainer/config/run_config.h"
#include "trainer/record/run_metrics.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// What a run knows at its end.
struct RunResult {
  Session& session;
  const models::Model& model;
  const config::RunConfig& config;
  const RunMetrics& metrics;
  int ranks = 1;
  std::optional<int64_t> budget_bytes = {}, arena_budget_bytes = {};  // what memory.budget came to
  std::string chosen = {};  // by the budget solver; empty: nothing was left to it
  std::optional<double> predicted_step_seconds = {};
  std::optional<int64_t> predicted_process_bytes = {};  // on a GPU, and what it was
  std::optional<int64_t> process_bytes = {};
  std::optional<int64_t> used_bytes = {};  // of the arena, where canaries were laid
  std::string energy_counts = {};          // what the energy counter counts
  std::string energy_problem = {};         // why there is none
};

// Steps at the start of a run whose times do not count.
inline constexpr int64_t kWarmupSteps = 3;

nlohmann::ordered_json RunSummary(const RunResult& result);

// On all ranks.
double TokensPerStep(const CompiledStep& compiled);

// Bytes that a step copies from the device to the host: activations, and the optimizer's state.
int64_t OffloadedBytes(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
