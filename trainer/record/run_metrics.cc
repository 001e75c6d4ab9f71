#include "trainer/record/run_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/function_ref.h"
#include "base/input_file.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;

// JSON cannot represent NaN or infinities: they are written as null.
double NumberOf(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

bool IsNumberOrNull(const json& value) { return value.is_number() || value.is_null(); }

bool IsPair(const json& value) {
  return value.is_array() && value.size() == 2 && std::ranges::all_of(value, IsNumberOrNull);
}

// Why `row` is not a valid row; empty if it is.
std::string ProblemWith(const json& row) {
  if (row.is_discarded()) return "it is not JSON";
  if (!row.is_object()) return "it is not an object";
  if (!row.contains("step") || !row.at("step").is_number_integer()) return "it has no step";
  static const std::set<std::string> kIntegers = {"skipped", "rollback", "targets"},
                                     kTexts = {"diverged"}, kPairs = {"rank_step_ms", "rank_bytes"},
                                     kNumbers = {
                                         "loss",  "eval_loss",       "grad_norm",        "step_ms",
                                         "watts", "joules_per_step", "joules_per_token", "data_ms"};
  for (const auto& [name, value] : row.items()) {
    if (kIntegers.contains(name) && !value.is_number_integer()) return name + " is no integer";
    if (kTexts.contains(name) && !value.is_string()) return name + " is no text";
    if (kPairs.contains(name) && !IsPair(value)) return name + " is no pair of numbers";
    if (kNumbers.contains(name) && !IsNumberOrNull(value)) return name + " is no number";
  }
  return "";
}

void ForEachRow(std::istream& file, const std::string& path,
                FunctionRef<void(const std::string& line, const json& row)> take) {
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // no newline: the line is incomplete
    const json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
    ++number;
    const std::string problem = ProblemWith(row);
    if (!problem.empty()) {
      throw UserError(fmt::format("{}:{}: is no row of a run: {}; mend or remove that line", path,
                                  number, problem));
    }
    take(line, row);
  }
}

// Removes the first `count` values, if there are more than `count`.
std::vector<double> WithoutFirst(const std::vector<double>& values, int64_t count) {
  return {values.begin() + (count < std::ssize(values) ? count : 0), values.end()};
}

void Add(const json& row, RunMetrics& metrics) {
  if (row.contains("eval_loss")) {
    metrics.evaluations.push_back({row.at("step").get<int64_t>(), NumberOf(row.at("eval_loss"))});
    return;
  }
  if (!row.contains("loss")) return;  // the row is a rollback
  const bool without_targets = row.contains("targets");
  if (without_targets) ++metrics.without_targets;
  metrics.loss.push_back(without_targets && !metrics.loss.empty() ? metrics.loss.back()
                                                                  : NumberOf(row.at("loss")));
  if (row.contains("step_ms")) metrics.step_ms.push_back(NumberOf(row.at("step_ms")));
  if (row.contains("data_ms")) metrics.data_ms.push_back(NumberOf(row.at("data_ms")));
  metrics.skipped = row.value("skipped", metrics.skipped);
  if (row.contains("joules_per_step") && row.contains("joules_per_token") &&
      row.contains("watts")) {
    metrics.energy.push_back({.joules_per_step = NumberOf(row.at("joules_per_step")),
                              .joules_per_token = NumberOf(row.at("joules_per_token")),
                              .watts = NumberOf(row.at("watts"))});
  }
  if (row.contains("gpu_bytes") && row.at("gpu_bytes").is_number()) {
    metrics.most_gpu_bytes =
        std::max(metrics.most_gpu_bytes.value_or(0), row.at("gpu_bytes").get<int64_t>());
  }
  if (row.contains("rank_bytes")) {
    const auto most = static_cast<int64_t>(NumberOf(row.at("rank_bytes").at(1)));
    metrics.most_rank_bytes = std::max(metrics.most_rank_bytes.value_or(0), most);
  }
}

}  // namespace

RunMetrics ReadMetrics(const std::string& path) {
  std::ifstream file = OpenFile(path);
  if (!file) throw UserError(path + ": cannot be read");
  NoteInput(path);
  RunMetrics metrics;
  ForEachRow(file, path, [&](const std::string&, const json& row) { Add(row, metrics); });
  return metrics;
}

std::vector<std::string> LinesUntil(const std::string& path, int64_t steps, int64_t evaluated,
                                    int64_t rollbacks) {
  std::vector<std::string> lines;
  std::ifstream file = OpenFile(path);
  ForEachRow(file, path, [&](const std::string& line, const json& row) {
    const int64_t step = row.at("step");
    const auto rollback = row.find("rollback");
    const bool before = rollback != row.end()       ? *rollback <= rollbacks
                        : row.contains("eval_loss") ? step <= evaluated
                                                    : step < steps;
    if (before) lines.push_back(line);
  });
  return lines;
}

std::vector<std::string> SamplesUntil(const std::string& path, int64_t steps) {
  std::vector<std::string> lines;
  std::ifstream file = OpenFile(path);
  ForEachRow(file, path, [&](const std::string& line, const json& row) {
    if (row.at("step").get<int64_t>() <= steps) lines.push_back(line);
  });
  return lines;
}

std::optional<Evaluation> BestEvaluation(const RunMetrics& metrics) {
  std::optional<Evaluation> best;
  for (const Evaluation& evaluation : metrics.evaluations) {
    if (std::isfinite(evaluation.loss) && (!best || evaluation.loss < best->loss)) {
      best = evaluation;
    }
  }
  return best;
}

std::optional<Energy> MeanEnergy(const RunMetrics& metrics) {
  if (metrics.energy.empty()) return std::nullopt;
  Energy mean;
  for (const Energy& window : metrics.energy) mean += window;
  const auto count = static_cast<double>(metrics.energy.size());
  mean.joules_per_step /= count;
  mean.joules_per_token /= count;
  mean.watts /= count;
  return mean;
}

std::vector<double> MeasuredSteps(const RunMetrics& metrics, int64_t warmup) {
  return WithoutFirst(metrics.step_ms, warmup);
}

std::vector<double> MeasuredDataTimes(const RunMetrics& metrics, int64_t warmup) {
  return WithoutFirst(metrics.data_ms, warmup);
}

}  // namespace plimsoll::trainer
