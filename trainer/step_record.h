// What is kept of a training step: its row of metrics.jsonl, or the error that ends the run.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/caching_allocator.h"
#include "trainer/config/run_config.h"
#include "trainer/progress.h"
#include "trainer/session.h"

namespace plimsoll::trainer {

// A line of metrics.jsonl. `gpu_bytes`: of the process; `caching`: of the caching allocator,
// nullptr where the planned arena is in use.
nlohmann::ordered_json MetricsRow(const StepReport& report, const std::optional<int64_t>& gpu_bytes,
                                  const runtime::CachingStats* caching);
nlohmann::ordered_json EvaluationRow(int64_t steps_done, double loss);

// A row with the pairs among its values, least and most of all ranks, as two values each:
// rank_bytes_min, rank_bytes_max.
nlohmann::ordered_json FlatRow(const nlohmann::ordered_json& row);
// Every member that flat rows can have, in order.
const std::vector<std::string>& MetricsColumns();

// UserError when loss or gradient are not finite. A step that was skipped because a scaled gradient
// overflowed is no reason to stop; amp.max_skips in a row are.
void RequireFinite(const config::RunConfig& config, int64_t step, const StepMetrics& metrics);

}  // namespace plimsoll::trainer
