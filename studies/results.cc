#include "studies/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/input_file.h"
#include "base/statistics.h"
#include "studies/unfinished_run.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

constexpr std::array<const char*, 7> kNames = {"done",   "infeasible", "failed", "timed out",
                                               "broken", "unfinished", "not run"};

std::optional<double> NumberIn(const ordered_json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_number()) {
    return std::nullopt;
  }
  return object.at(key).get<double>();
}

// Adds the results of the check and profile runs (runner.cc).
void AddChecks(const std::string& directory, Row& row) {
  std::optional<double> used = NumberIn(ReadJson(directory + "/check/summary.json"), "used_bytes");
  if (!used) used = row.Figure("used_bytes");
  if (used) row.used_bytes = static_cast<int64_t>(*used);
  const ordered_json profile = ReadJson(directory + "/profile/profile.json");
  if (profile.is_object()) {
    row.collective_ms = profile.at("collectives").at("ms").get<double>();
    row.exposed_ms = profile.at("collectives").at("exposed_ms").get<double>();
  }
}

}  // namespace

std::string ReadText(const std::string& path) {
  std::ifstream file = OpenFile(path);
  if (!file) return "";
  NoteInput(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

ordered_json ReadJson(const std::string& path) {
  const ordered_json json = ordered_json::parse(ReadText(path), nullptr, /*exceptions=*/false);
  return json.is_discarded() ? ordered_json(nullptr) : json;
}

const char* Name(Status status) { return kNames[static_cast<size_t>(status)]; }

Status ParseStatus(const std::string& name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Status>(i);
  }
  return Status::kNotRun;
}

ordered_json ToJson(const Outcome& outcome) {
  return {{"status", Name(outcome.status)},
          {"reason", outcome.reason},
          {"seconds", outcome.seconds},
          {"steps", outcome.steps}};
}

std::optional<Outcome> ReadOutcome(const std::string& path) {
  const ordered_json json = ReadJson(path);
  try {
    Outcome outcome{ParseStatus(json.at("status").get<std::string>()),
                    json.at("reason").get<std::string>(), json.at("seconds").get<double>(),
                    json.at("steps").get<int64_t>()};
    if (outcome.status == Status::kNotRun) return std::nullopt;
    return outcome;
  } catch (const ordered_json::exception&) {
    return std::nullopt;
  }
}

double Run::median_ms() const { return QuartilesOf(step_ms).median; }

std::optional<double> Run::Figure(const char* key) const { return NumberIn(summary, key); }

std::optional<double> Run::loss() const {
  return losses.empty() ? Figure("loss") : std::optional(losses.back());
}

std::optional<double> Run::eval_loss() const {
  return evaluations.empty() ? Figure("eval_loss") : std::optional(evaluations.back().loss);
}

std::optional<double> Run::best_eval_loss() const {
  if (evaluations.empty()) return Figure("best_eval_loss");
  return std::ranges::min_element(evaluations, {}, &trainer::Evaluation::loss)->loss;
}

std::optional<double> Row::Figure(const char* key) const {
  return runs.empty() ? std::nullopt : runs.front().Figure(key);
}

ordered_json Row::Member(const char* key) const {
  if (runs.empty() || !runs.front().summary.is_object()) return nullptr;
  return runs.front().summary.value(key, ordered_json(nullptr));
}

std::optional<double> Row::peak_bytes() const {
  for (const char* key : {"peak_bytes", "process_bytes", "reserved_bytes", "arena_bytes"}) {
    if (const std::optional<double> bytes = Figure(key)) return bytes;
  }
  return std::nullopt;
}

void AddRun(const std::string& directory, int64_t warmup, Row& row) {
  const std::string file = directory + "/metrics.jsonl";
  // A run that is about to begin has no metrics yet.
  trainer::RunMetrics metrics =
      std::filesystem::exists(file) ? trainer::ReadMetrics(file) : trainer::RunMetrics();
  Run run;
  run.summary = ReadJson(directory + "/summary.json");
  if (!run.summary.is_object()) {
    row.status = Status::kUnfinished;
    row.note = DescribeUnfinished(directory, metrics);
    run.summary = SummaryOfUnfinished(directory, metrics);
  }
  run.step_ms = trainer::MeasuredSteps(metrics, warmup);
  if (run.step_ms.empty()) {
    if (row.status == Status::kDone) row.note = "made no steps";
    return;
  }
  run.losses = std::move(metrics.loss);
  run.evaluations = std::move(metrics.evaluations);
  row.runs.push_back(std::move(run));
  if (row.runs.size() > 1) return;
  row.timeline = ReadJson(directory + "/memory_timeline.json");
  AddChecks(directory, row);
}

}  // namespace plimsoll::studies
