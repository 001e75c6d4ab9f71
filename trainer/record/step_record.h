// The record of a training step, an evaluation or a rollback: a row of metrics.jsonl.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/record/progress.h"
#include "trainer/step/compile.h"
#include "trainer/step/metrics.h"

namespace plimsoll::trainer {

// A step's line of metrics.jsonl. `gpu_bytes` is the process's GPU memory.
nlohmann::ordered_json MetricsRow(const StepReport& report,
                                  const std::optional<int64_t>& gpu_bytes);
// The row of a step without targets, which made no update.
nlohmann::ordered_json NoTargetsRow(int64_t step);
// The most elements of a tensor metric in a row; a metric with more elements is omitted.
inline constexpr int64_t kMostRowElements = 128 * 128;
// The row of an evaluation. `metrics` are the model's metrics; `values` are, for each objective,
// the metrics on the held-out data.
nlohmann::ordered_json EvaluationRow(int64_t steps_done, std::span<const MetricInfo> metrics,
                                     std::span<const StepMetrics> values);
// A metric as a member of a row: a number, or for a tensor {"sum": [[…], …]}, with "count" if the
// metric has a count.
nlohmann::ordered_json MetricJson(const EvaluatedMetric& metric,
                                  std::span<const StepMetrics> values);
// The row of the `number`-th rollback, counted from 1, which goes back to `step`.
nlohmann::ordered_json RollbackRow(int64_t step, int64_t number, const std::string& text);

// A line of samples.jsonl: the `number`-th text, counted from 1, after `steps_done` steps.
nlohmann::ordered_json SampleRow(int64_t steps_done, int64_t number, const std::string& prompt,
                                 const std::string& text);

// A row in which each pair (the least and the most over ranks) becomes two values: rank_bytes_min,
// rank_bytes_max.
nlohmann::ordered_json FlatRow(const nlohmann::ordered_json& row);
// Every member that flat rows can have for any model, in order.
const std::vector<std::string>& MetricsColumns();
// The columns for the model: those of each objective, if there are several, and of the metrics that
// the model declares. Throws an InternalError if one has the name of another column.
std::vector<std::string> ModelColumns(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
