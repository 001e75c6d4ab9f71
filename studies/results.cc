#include "studies/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/amounts.h"
#include "base/error.h"
#include "base/folder_lock.h"
#include "base/input_file.h"
#include "base/output_file.h"
#include "base/statistics.h"
#include "trainer/config/load.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 7> kNames = {"done",   "infeasible", "failed", "timed out",
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

// A sentence on the number of steps that the run has made, and whether it still runs: "37 of 100
// steps so far; process 12 on host a trains there", "stopped after 37 of 100 steps; it left
// snapshots".
std::string DescribeUnfinished(const std::string& directory, const trainer::RunMetrics& metrics) {
  const config::RunConfig config = config::Load(directory + "/config.yaml").config;
  const std::string steps =
      fmt::format("{} of {}", metrics.loss.size(), Counted(config.train.StepsToMake(), "step"));
  if (const std::optional<std::string> holder = LockHolder(directory)) {
    return fmt::format("{} so far; {} trains there", steps, *holder);
  }
  std::error_code error;
  const bool snapshots = std::filesystem::exists(directory + "/snapshots", error);
  return "stopped after " + steps + (snapshots ? "; it left snapshots" : "");
}

// The members of summary.json that follow from plan.json and config.yaml. Empty if no plan.json
// exists.
ordered_json SummaryOfUnfinished(const std::string& directory, const trainer::RunMetrics& metrics) {
  ordered_json summary = ordered_json::object();
  const ordered_json plan = ReadJson(directory + "/plan.json");
  if (!plan.is_object()) return summary;
  for (const char* key : {"arena_bytes", "max_live_bytes", "host_arena_bytes", "bytes_by_role",
                          "predicted_step_ms", "threads", "parameters", "trained_parameters"}) {
    if (plan.contains(key)) summary[key] = plan.at(key);
  }
  summary["predicted_process_bytes"] = plan.value("process_bytes", ordered_json(nullptr));
  if (metrics.most_gpu_bytes) summary["process_bytes"] = *metrics.most_gpu_bytes;
  // With several ranks, the number of ranks is unknown here.
  if (!metrics.most_rank_bytes) {
    summary["tokens_per_step"] = plan.value("micro_batch", 0.0) * plan.value("sequence", 0.0) *
                                 plan.value("accumulate", 0.0);
  }
  if (plan.contains("caching")) {
    summary["caching_replay_bytes"] =
        plan.at("caching").value("reserved_bytes", ordered_json(nullptr));
  }
  return summary;
}

// Figures that must be above 0 if they are present; all others need only be finite.
constexpr std::array kPositive = {"step_ms_low",     "step_ms_high",    "tokens_per_s",
                                  "tokens_per_step", "process_bytes",   "peak_bytes",
                                  "arena_bytes",     "reserved_bytes",  "ranks",
                                  "joules_per_step", "joules_per_token"};
constexpr std::array kFinite = {"loss", "eval_loss", "best_eval_loss", "mfu", "hfu"};

[[noreturn]] void Refuse(const std::string& member, const ordered_json& value, const char* want) {
  std::string text = value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 40) + "…";
  throw UserError(fmt::format("the command printed {}: {}; it must be {}", member, text, want));
}

void RequirePositive(const std::string& member, const ordered_json& value) {
  if (value.is_number() && value.get<double>() > 0 && std::isfinite(value.get<double>())) return;
  Refuse(member, value, "a finite number above 0");
}

}  // namespace

ordered_json ReadJson(const std::string& path) {
  std::ifstream file = OpenFile(path);
  if (file) NoteInput(path);
  const ordered_json json = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? ordered_json(nullptr) : json;
}

std::string_view Name(Status status) { return kNames[static_cast<size_t>(status)]; }

ordered_json ToJson(const Outcome& outcome) {
  return {{"status", Name(outcome.status)},
          {"reason", outcome.reason},
          {"seconds", outcome.seconds},
          {"steps", outcome.steps}};
}

std::optional<Outcome> ReadOutcome(const std::string& path) {
  const ordered_json json = ReadJson(path);
  try {
    const auto name = std::ranges::find(kNames, json.at("status").get<std::string>());
    const auto status = static_cast<Status>(name - kNames.begin());
    if (status >= Status::kNotRun) return std::nullopt;
    return Outcome{status, json.at("reason"), json.at("seconds"), json.at("steps")};
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
  // A run that has not made its first step has no metrics file.
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
  const ordered_json no_effect = row.Member("no_effect");
  if (row.status != Status::kUnfinished && no_effect.is_string()) {
    row.note = no_effect.get<std::string>();
  }
  row.timeline = ReadJson(directory + "/memory_timeline.json");
  AddChecks(directory, row);
}

ordered_json LastObject(const std::string& path) {
  std::ifstream file = OpenFile(path);
  std::array<char, 1 << 16> block;
  std::string line, last;
  bool too_long = false;
  // If a part of a line fills the block, the stream has failed but is not at the end of the file.
  while (file.getline(block.data(), block.size()) || (!file.eof() && file.gcount() > 0)) {
    if (!too_long) line.append(block.data());
    too_long |= line.size() > kKeptOutput;
    if (too_long) line.clear();
    if (file.fail()) {
      file.clear();
      continue;
    }
    // Most lines that begin like an object are objects: only the last one is parsed twice.
    if (line.starts_with('{') && line.find("\"step_ms\"") != line.npos) {
      const ordered_json json = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (json.is_object() && json.contains("step_ms")) last = line;
    }
    line.clear();
    too_long = false;
  }
  return last.empty() ? ordered_json(nullptr) : ordered_json::parse(last);
}

void CheckOutput(const ordered_json& object) {
  if (!object.is_object() || !object.contains("step_ms")) {
    throw UserError("the command printed no line of JSON with step_ms, the milliseconds of a step");
  }
  const ordered_json& steps = object.at("step_ms");
  if (!steps.is_array()) {
    RequirePositive("step_ms", steps);
  } else if (steps.empty()) {
    Refuse("step_ms", steps, "a number, or a list of some");
  } else {
    for (size_t i = 0; i < steps.size(); ++i) {
      RequirePositive(fmt::format("step_ms[{}]", i), steps.at(i));
    }
  }
  for (const char* member : kPositive) {
    if (object.contains(member) && !object.at(member).is_null()) {
      RequirePositive(member, object.at(member));
    }
  }
  for (const char* member : kFinite) {
    const ordered_json value = object.value(member, ordered_json(nullptr));
    if (value.is_null() || (value.is_number() && std::isfinite(value.get<double>()))) continue;
    Refuse(member, value, "a finite number");
  }
}

Run RunOf(const ordered_json& object, const std::string& seed) {
  Run run;
  run.seed = seed;
  run.summary = object;
  const ordered_json& steps = object.at("step_ms");
  if (steps.is_array()) {
    run.step_ms = steps.get<std::vector<double>>();
    return run;
  }
  run.step_ms = {steps.get<double>()};
  // A single figure with its spread counts as five steps whose quartiles are these three values.
  const std::optional<double> low = run.Figure("step_ms_low"), high = run.Figure("step_ms_high");
  if (low && high) run.step_ms.insert(run.step_ms.end(), {*low, *low, *high, *high});
  return run;
}

std::string ReadTail(const std::string& path, size_t bytes) {
  std::ifstream file = OpenFile(path);
  if (!file) return "";
  file.seekg(0, std::ios::end);
  const auto size = static_cast<size_t>(file.tellg());
  const size_t kept = std::min(size, bytes);
  file.seekg(static_cast<std::streamoff>(size - kept));
  std::string text(kept, '\0');
  file.read(text.data(), static_cast<std::streamsize>(kept));
  text.resize(static_cast<size_t>(file.gcount()));
  if (kept < size) text.erase(0, text.find('\n') == text.npos ? 0 : text.find('\n') + 1);
  return text;
}

std::string ReadHead(const std::string& path, size_t bytes) {
  std::ifstream file = OpenFile(path);
  std::string text(bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

void KeepTail(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error || size <= kKeptOutput) return;
  const std::string tail = ReadTail(path);
  WriteWhole(path, fmt::format("… {} bytes left out\n", size - tail.size()) + tail);
}

}  // namespace plimsoll::studies
