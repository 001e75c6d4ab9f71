#include "studies/results.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/statistics.h"
#include "trainer/run_metrics.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

constexpr std::array<const char*, 6> kNames = {"done",      "infeasible", "failed",
                                               "timed out", "broken",     "not run"};

// null where there is no such file, or no JSON in it.
ordered_json ReadJson(const std::string& path) {
  const ordered_json json = ordered_json::parse(ReadText(path), nullptr, /*exceptions=*/false);
  return json.is_discarded() ? ordered_json(nullptr) : json;
}

void AddSteps(const std::vector<double>& step_ms, Row& row) {
  row.medians.push_back(QuartilesOf(step_ms).median);
  row.step_ms.insert(row.step_ms.end(), step_ms.begin(), step_ms.end());
}

}  // namespace

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "";
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const char* Name(Status status) { return kNames[static_cast<size_t>(status)]; }

Status ParseStatus(const std::string& name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Status>(i);
  }
  return Status::kNotRun;
}

ordered_json ToJson(const Outcome& outcome) {
  return {
      {"status", Name(outcome.status)}, {"reason", outcome.reason}, {"seconds", outcome.seconds}};
}

std::optional<Outcome> ReadOutcome(const std::string& path) {
  const ordered_json json = ReadJson(path);
  try {
    Outcome outcome{ParseStatus(json.at("status").get<std::string>()),
                    json.at("reason").get<std::string>(), json.at("seconds").get<double>()};
    if (outcome.status == Status::kNotRun) return std::nullopt;
    return outcome;
  } catch (const ordered_json::exception&) {
    return std::nullopt;
  }
}

std::optional<double> Row::Figure(const char* key) const {
  if (!summary.is_object() || !summary.contains(key) || !summary.at(key).is_number()) {
    return std::nullopt;
  }
  return summary.at(key).get<double>();
}

std::optional<double> Row::loss() const {
  if (!losses.empty() && !losses.front().empty()) return losses.front().back();
  return Figure("loss");
}

std::optional<double> Row::peak_bytes() const {
  for (const char* key : {"peak_bytes", "process_bytes", "reserved_bytes", "arena_bytes"}) {
    if (const std::optional<double> bytes = Figure(key)) return bytes;
  }
  return std::nullopt;
}

void AddRun(const std::string& directory, int64_t warmup, Row& row) {
  const ordered_json summary = ReadJson(directory + "/summary.json");
  if (!summary.is_object()) {
    throw UserError(directory + ": holds no run that came to its end (summary.json is missing)");
  }
  const trainer::RunMetrics metrics = trainer::ReadMetrics(directory + "/metrics.jsonl");
  const std::vector<double> steps = trainer::MeasuredSteps(metrics, warmup);
  if (steps.empty()) throw UserError(directory + ": its run made no step");
  AddSteps(steps, row);
  row.losses.push_back(metrics.loss);
  if (++row.runs > 1) return;
  row.summary = summary;
  row.timeline = ReadJson(directory + "/memory_timeline.json");
  if (const auto used = row.Figure("used_bytes")) row.used_bytes = static_cast<int64_t>(*used);
  // The runs beside it that a study makes.
  const ordered_json checked = ReadJson(directory + "/check/summary.json");
  if (checked.is_object() && checked.at("used_bytes").is_number()) {
    row.used_bytes = checked.at("used_bytes").get<int64_t>();
  }
  const ordered_json profile = ReadJson(directory + "/profile/profile.json");
  if (profile.is_object()) {
    row.collective_ms = profile.at("collectives").at("ms").get<double>();
    row.exposed_ms = profile.at("collectives").at("exposed_ms").get<double>();
  }
}

void AddOutput(const std::string& output, Row& row) {
  ordered_json summary;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('{')) continue;
    const ordered_json json = ordered_json::parse(line, nullptr, /*exceptions=*/false);
    if (json.is_object()) summary = json;
  }
  std::vector<double> steps;
  if (summary.is_object() && summary.contains("step_ms")) {
    const ordered_json& ms = summary.at("step_ms");
    if (ms.is_number()) steps = {ms.get<double>()};
    if (ms.is_array()) {
      for (const ordered_json& step : ms) {
        if (step.is_number()) steps.push_back(step.get<double>());
      }
    }
  }
  if (steps.empty()) {
    throw UserError("the command printed no line of JSON with step_ms, the milliseconds of a step");
  }
  // One figure with its spread stands for three steps.
  const bool spread = steps.size() == 1 && summary.contains("step_ms_low") &&
                      summary.at("step_ms_low").is_number() && summary.contains("step_ms_high") &&
                      summary.at("step_ms_high").is_number();
  row.medians.push_back(QuartilesOf(steps).median);
  if (spread) {
    for (const char* key : {"step_ms_low", "step_ms_low", "step_ms_high", "step_ms_high"}) {
      steps.push_back(summary.at(key).get<double>());
    }
  }
  row.step_ms.insert(row.step_ms.end(), steps.begin(), steps.end());
  if (++row.runs == 1) row.summary = summary;
}

}  // namespace plimsoll::studies
