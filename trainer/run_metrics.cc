#include "trainer/run_metrics.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;

// JSON has no word for a number that isn't one.
double NumberOf(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

void Add(const json& row, RunMetrics& metrics) {
  if (row.contains("eval_loss")) {
    metrics.evaluations.push_back({row.at("step").get<int64_t>(), NumberOf(row.at("eval_loss"))});
    return;
  }
  if (!row.contains("loss")) return;  // a rollback
  metrics.loss.push_back(NumberOf(row.at("loss")));
  metrics.step_ms.push_back(NumberOf(row.at("step_ms")));
  metrics.skipped = row.at("skipped").get<int64_t>();
  if (row.contains("joules_per_step")) {
    metrics.energy.push_back({.joules_per_step = NumberOf(row.at("joules_per_step")),
                              .joules_per_token = NumberOf(row.at("joules_per_token")),
                              .watts = NumberOf(row.at("watts"))});
  }
  if (row.contains("gpu_bytes") && row.at("gpu_bytes").is_number()) {
    metrics.most_gpu_bytes =
        std::max(metrics.most_gpu_bytes.value_or(0), row.at("gpu_bytes").get<int64_t>());
  }
  if (row.contains("rank_bytes")) {
    const auto most = row.at("rank_bytes").at(1).get<int64_t>();
    metrics.most_rank_bytes = std::max(metrics.most_rank_bytes.value_or(0), most);
  }
}

}  // namespace

RunMetrics ReadMetrics(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UserError(path + ": cannot be read");
  RunMetrics metrics;
  try {
    for (std::string line; std::getline(file, line);) {
      if (file.eof()) break;  // no newline: cut off
      Add(json::parse(line), metrics);
    }
  } catch (const json::exception&) {
    throw UserError(path + ": is not the metrics.jsonl of a run");
  }
  return metrics;
}

std::vector<std::string> LinesUntil(const std::string& path, int64_t steps, int64_t evaluated,
                                    int64_t rollbacks) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // no newline: cut off
    const json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto step = row.is_object() ? row.find("step") : row.end();
    if (step == row.end() || !step->is_number_integer()) {
      throw UserError(path + ": is not the metrics.jsonl of a run");
    }
    const auto rollback = row.find("rollback");
    const bool before = rollback != row.end()       ? *rollback <= rollbacks
                        : row.contains("eval_loss") ? *step <= evaluated
                                                    : *step < steps;
    if (before) lines.push_back(line);
  }
  return lines;
}

std::vector<double> MeasuredSteps(const RunMetrics& metrics, int64_t warmup) {
  const auto steps = static_cast<int64_t>(metrics.step_ms.size());
  const int64_t first = warmup < steps ? warmup : 0;
  return {metrics.step_ms.begin() + first, metrics.step_ms.end()};
}

}  // namespace plimsoll::trainer
