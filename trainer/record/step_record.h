// What is kept of a training step, an evaluation or a rollback: a row of metrics.jsonl.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/caching_allocator.h"
#include "trainer/record/progress.h"

namespace plimsoll::trainer {

// A line of metrics.jsonl. `gpu_bytes`: of the process; `caching`: of the caching allocator,
// nullptr where the planned arena is in use.
nlohmann::ordered_json MetricsRow(const StepReport& report, const std::optional<int64_t>& gpu_bytes,
                                  const runtime::CachingStats* caching);
nlohmann::ordered_json EvaluationRow(int64_t steps_done, double loss);
// The run goes back to `step` for the `number`-th time, from 1 on.
nlohmann::ordered_json RollbackRow(int64_t step, int64_t number, const std::string& text);

// A line of samples.jsonl: the `number`-th text after so many steps, from 1 on.
nlohmann::ordered_json SampleRow(int64_t steps_done, int64_t number, const std::string& prompt,
                                 const std::string& text);

// A row with the pairs among its values, least and most of all ranks, as two values each:
// rank_bytes_min, rank_bytes_max.
nlohmann::ordered_json FlatRow(const nlohmann::ordered_json& row);
// Every member that flat rows can have, in order.
const std::vector<std::string>& MetricsColumns();
}  // namespace plimsoll::trainer
