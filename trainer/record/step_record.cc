#include "trainer/record/step_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "graph/objective.h"

namespace plimsoll::trainer {

using nlohmann::ordered_json;

namespace {

// The members of a row for one objective.
ordered_json ObjectiveMembers(const ObjectiveReport& objective) {
  ordered_json members = {{"loss", objective.loss},
                          {"lr", objective.lr},
                          {"grad_norm", objective.grad_norm},
                          {"loss_scale", objective.loss_scale},
                          {"skipped", objective.skipped}};
  if (objective.loss_limit) members["loss_limit"] = *objective.loss_limit;
  if (objective.codes) {
    members["fp8_saturated"] = objective.codes->saturated;
    members["fp8_zeroed"] = objective.codes->zeroed;
    members["fp8_overflowed"] = objective.codes->overflowed;
  }
  return members;
}

// The elements from index `at` on, as nested lists.
ordered_json Lists(const MetricInfo& metric, const std::vector<double>& values, size_t dim,
                   size_t& at) {
  if (dim == static_cast<size_t>(metric.type.shape.rank())) {
    const double value = values[at++];
    const bool integer = metric.type.dtype == graph::DType::kInt32;
    return integer ? ordered_json(static_cast<int64_t>(value)) : ordered_json(value);
  }
  ordered_json list = ordered_json::array();
  for (int64_t i = 0; i < metric.type.shape.dim(static_cast<int>(dim)); ++i) {
    list.push_back(Lists(metric, values, dim + 1, at));
  }
  return list;
}

std::string EvaluationMember(const EvaluatedMetric& metric) { return "eval_" + metric.name; }

}  // namespace

ordered_json MetricsRow(const StepReport& report, const std::optional<int64_t>& gpu_bytes) {
  const ObjectiveReport& first = report.objectives.front();
  ordered_json row = {{"step", report.step},
                      {"loss", first.loss},
                      {"lr", first.lr},
                      {"grad_norm", first.grad_norm},
                      {"step_ms", report.step_seconds * 1e3},
                      {"data_ms", report.data_seconds * 1e3},
                      {"tokens_per_s", report.tokens_per_second},
                      {"mfu", report.mfu ? ordered_json(*report.mfu) : ordered_json(nullptr)},
                      {"arena_bytes", report.arena_bytes},
                      {"resident_bytes", report.resident_bytes},
                      {"gpu_bytes", gpu_bytes ? ordered_json(*gpu_bytes) : ordered_json(nullptr)},
                      {"loss_scale", first.loss_scale},
                      {"skipped", first.skipped}};
  if (report.energy) {
    row["joules_per_step"] = report.energy->joules_per_step;
    row["joules_per_token"] = report.energy->joules_per_token;
    row["watts"] = report.energy->watts;
  }
  row.update(ObjectiveMembers(first));
  if (!report.diverged.empty()) row["diverged"] = report.diverged;
  if (report.ranks) {
    row["rank_step_ms"] = {report.ranks->fastest_seconds * 1e3,
                           report.ranks->slowest_seconds * 1e3};
    row["slowest_rank"] = report.ranks->slowest;
    row["rank_bytes"] = {report.ranks->least_bytes, report.ranks->most_bytes};
  }
  if (!report.planned) {
    row["allocator"] = "caching";
    row["reserved_bytes"] = report.allocator.reserved;
    row["peak_allocated_bytes"] = report.allocator.peak_allocated;
    row["allocator_fragmentation"] = report.allocator.fragmentation();
  }
  for (const ObjectiveReport& objective : report.objectives) {
    if (objective.name.empty()) continue;  // the row's own members describe it
    const ordered_json members = ObjectiveMembers(objective);
    for (const auto& [name, value] : members.items()) {
      row[graph::OfObjective(objective.name, name)] = value;
    }
  }
  for (const auto& [name, value] : report.metrics) row[name] = value;
  return row;
}

ordered_json NoTargetsRow(int64_t step) {
  return {{"step", step}, {"loss", nullptr}, {"targets", 0}};
}

ordered_json EvaluationRow(int64_t steps_done, std::span<const MetricInfo> metrics,
                           std::span<const StepMetrics> values) {
  ordered_json row = {{"step", steps_done}};
  for (const EvaluatedMetric& metric : EvaluatedMetrics(metrics)) {
    if (metric.info.type.shape.elements() > kMostRowElements) continue;
    row[EvaluationMember(metric)] = MetricJson(metric, values);
  }
  return row;
}

ordered_json MetricJson(const EvaluatedMetric& metric, std::span<const StepMetrics> values) {
  if (metric.info.scalar()) return metric.Value(values);
  const MetricSum& sum = metric.Sum(values);
  size_t at = 0;
  ordered_json json = {{"sum", Lists(metric.info, sum.sum, 0, at)}};
  if (sum.count) json["count"] = *sum.count;
  return json;
}

ordered_json RollbackRow(int64_t step, int64_t number, const std::string& text) {
  return {{"step", step}, {"rollback", number}, {"diverged", text}};
}

ordered_json SampleRow(int64_t steps_done, int64_t number, const std::string& prompt,
                       const std::string& text) {
  return {{"step", steps_done}, {"sample", number}, {"prompt", prompt}, {"text", text}};
}

ordered_json FlatRow(const ordered_json& row) {
  ordered_json flat = ordered_json::object();
  for (const auto& [key, value] : row.items()) {
    const bool pair = value.is_array() && value.size() == 2;
    if (pair) {
      flat[key + "_min"] = value.at(0);
      flat[key + "_max"] = value.at(1);
    } else {
      flat[key] = value;
    }
  }
  return flat;
}

const std::vector<std::string>& MetricsColumns() {
  static const std::vector<std::string> columns = {"step",
                                                   "loss",
                                                   "eval_loss",
                                                   "lr",
                                                   "grad_norm",
                                                   "step_ms",
                                                   "data_ms",
                                                   "tokens_per_s",
                                                   "mfu",
                                                   "arena_bytes",
                                                   "resident_bytes",
                                                   "gpu_bytes",
                                                   "loss_scale",
                                                   "skipped",
                                                   "targets",
                                                   "joules_per_step",
                                                   "joules_per_token",
                                                   "watts",
                                                   "loss_limit",
                                                   "fp8_saturated",
                                                   "fp8_zeroed",
                                                   "fp8_overflowed",
                                                   "diverged",
                                                   "rollback",
                                                   "rank_step_ms_min",
                                                   "rank_step_ms_max",
                                                   "slowest_rank",
                                                   "rank_bytes_min",
                                                   "rank_bytes_max",
                                                   "allocator",
                                                   "reserved_bytes",
                                                   "peak_allocated_bytes",
                                                   "allocator_fragmentation"};
  return columns;
}

std::vector<std::string> ModelColumns(const CompiledStep& compiled) {
  std::vector<std::string> columns;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(MetricsColumns(), name) != MetricsColumns().end() ||
        std::ranges::find(columns, name) != columns.end()) {
      throw InternalError("metric '" + name + "' has the name of another column of metrics.csv");
    }
    columns.push_back(name);
  };
  ObjectiveReport any;
  any.loss_limit = 0;
  any.codes.emplace();
  const ordered_json members = ObjectiveMembers(any);
  for (const models::Objective& objective : compiled.objectives) {
    if (objective.name.empty()) continue;
    for (const auto& [name, value] : members.items()) {
      add(graph::OfObjective(objective.name, name));
    }
  }
  const std::vector<EvaluatedMetric> evaluated = EvaluatedMetrics(compiled.metrics);
  for (const EvaluatedMetric& metric : std::span(evaluated).subspan(1)) {  // all but "loss"
    if (metric.info.declared && metric.info.scalar() && metric.info.in_steps) add(metric.name);
    add(EvaluationMember(metric));
  }
  return columns;
}

}  // namespace plimsoll::trainer
