#include "trainer/record/step_record.h"

#include <nlohmann/json.hpp>

namespace plimsoll::trainer {

using nlohmann::ordered_json;

ordered_json MetricsRow(const StepReport& report, const std::optional<int64_t>& gpu_bytes,
                        const runtime::CachingStats* caching) {
  ordered_json row = {{"step", report.step},
                      {"loss", report.loss},
                      {"lr", report.lr},
                      {"grad_norm", report.grad_norm},
                      {"step_ms", report.step_seconds * 1e3},
                      {"tokens_per_s", report.tokens_per_second},
                      {"mfu", report.mfu ? ordered_json(*report.mfu) : ordered_json(nullptr)},
                      {"arena_bytes", report.arena_bytes},
                      {"resident_bytes", report.resident_bytes},
                      {"gpu_bytes", gpu_bytes ? ordered_json(*gpu_bytes) : ordered_json(nullptr)},
                      {"loss_scale", report.loss_scale},
                      {"skipped", report.skipped}};
  if (report.energy) {
    row["joules_per_step"] = report.energy->joules_per_step;
    row["joules_per_token"] = report.energy->joules_per_token;
    row["watts"] = report.energy->watts;
  }
  if (report.loss_limit) row["loss_limit"] = *report.loss_limit;
  if (!report.diverged.empty()) row["diverged"] = report.diverged;
  if (report.ranks) {
    row["rank_step_ms"] = {report.ranks->fastest_seconds * 1e3,
                           report.ranks->slowest_seconds * 1e3};
    row["slowest_rank"] = report.ranks->slowest;
    row["rank_bytes"] = {report.ranks->least_bytes, report.ranks->most_bytes};
  }
  if (caching != nullptr) {
    row["allocator"] = "caching";
    row["reserved_bytes"] = caching->reserved;
    row["peak_allocated_bytes"] = caching->peak_allocated;
    row["allocator_fragmentation"] = caching->fragmentation();
  }
  return row;
}

ordered_json EvaluationRow(int64_t steps_done, double loss) {
  return {{"step", steps_done}, {"eval_loss", loss}};
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
                                                   "tokens_per_s",
                                                   "mfu",
                                                   "arena_bytes",
                                                   "resident_bytes",
                                                   "gpu_bytes",
                                                   "loss_scale",
                                                   "skipped",
                                                   "joules_per_step",
                                                   "joules_per_token",
                                                   "watts",
                                                   "loss_limit",
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

}  // namespace plimsoll::trainer
