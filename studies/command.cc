#include "studies/command.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "base/output_file.h"
#include "runtime/cuda/gpu_report.h"
#include "studies/figures.h"
#include "studies/runner.h"
#include "studies/table.h"
#include "studies/values.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_costs.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

// The group of a row, "micro_batch=8": rows with one value of the first axis share a colour.
std::string GroupOf(const StudyRow& row) {
  if (row.axes.empty()) return row.name;
  const auto& [key, value] = row.axes.front();
  return fmt::format("{}={}", key.substr(key.rfind('.') + 1), value);
}

// A study of more than this number of runs needs the user's confirmation.
constexpr size_t kManyRuns = 500;
// The time of a process outside its steps, for the first estimate.
constexpr double kStartSeconds = 2;

volatile sig_atomic_t g_stopped = 0;
void Stop(int /*signal*/) { g_stopped = 1; }

void CatchSignals() {
  struct sigaction action = {};
  action.sa_handler = Stop;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

// The GPUs that runs may use, named as in CUDA_VISIBLE_DEVICES.
std::vector<std::string> VisibleGpus() {
  std::vector<std::string> gpus;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::istringstream list(visible);
    for (std::string gpu; std::getline(list, gpu, ',');) gpus.push_back(gpu);
    return gpus;
  }
  const runtime::GpuReport report = runtime::InspectGpus();
  for (size_t i = 0; i < report.gpus.size(); ++i) {
    if (report.gpus[i].visible) gpus.push_back(std::to_string(i));
  }
  return gpus;
}

// The likely seconds of a run, estimated by built-in rates; nullopt if no estimate is possible.
std::optional<double> EstimateRun(const Study& study, config::RunConfig config) {
  try {
    config.checkpointing.policy = config::CheckpointPolicy::kNone;
    if (trainer::LeavesChoice(config)) return std::nullopt;
    const std::unique_ptr<models::Model> model = trainer::ModelFrom(config);
    const trainer::CompiledStep compiled =
        trainer::Compile(*model, trainer::CompileFrom(config, *model));
    const double step = trainer::PredictSeconds(
        compiled, trainer::CompileOtherStages(*model, compiled), trainer::BuiltInCost(config));
    const int64_t steps = study.measure.all_steps() + (study.measure.check_arena ? 1 : 0);
    return kStartSeconds + static_cast<double>(steps) * step;
  } catch (const std::exception&) {
    return std::nullopt;  // the rows report the error
  }
}

void RefuseMany(const Study& study, const config::RunConfig& base, size_t runs, int jobs) {
  const std::optional<double> seconds = EstimateRun(study, base);
  const std::string time =
      seconds ? fmt::format(", about {} in all",
                            FormatDuration(*seconds * static_cast<double>(runs) / jobs))
              : "";
  throw UserError(fmt::format("{}: {}{}; give --yes to start them, or shorten the axes", study.file,
                              Counted(runs, "run"), time));
}

// Throws for a study without any result, whatever the status of its rows.
void RequireAnyResult(const Study& study, const ordered_json& json) {
  const ordered_json& rows = json.at("rows");
  const bool any = std::ranges::any_of(
      rows, [](const ordered_json& row) { return row.at("status") == Name(Status::kDone); });
  if (any) return;
  const ordered_json& first = rows.at(0);
  throw UserError(fmt::format("{}: no row has a result; the first, {}, {}: {}", study.file,
                              first.at("name").get<std::string>(),
                              first.at("status").get<std::string>(), first.value("note", "")),
                  ExitCode::kInternal);
}

void PrintRows(const std::vector<StudyRow>& rows) {
  for (const StudyRow& row : rows) {
    std::string what =
        row.command.empty() ? fmt::format("{}", fmt::join(row.Sets(), " ")) : row.command;
    if (row.seeds.size() > 1) what += fmt::format("  ({} seeds)", row.seeds.size());
    if (row.ranks > 1) what += fmt::format("  ({} ranks)", row.ranks);
    if (!row.refused.empty()) what += fmt::format("  {}: {}", Name(row.refused_as), row.refused);
    PrintAnswer(fmt::format("{}: {}\n", row.name, what));
  }
}

class AblationRun {
 public:
  AblationRun(const AblateCommand& command, const Study& study, const std::vector<StudyRow>& rows,
              const StudyDirectory& directory)
      : command_(command), study_(study), rows_(rows), directory_(directory) {}

  // Builds study.json with all runs so far, and writes it and the table.
  ordered_json Write() const {
    StudyFacts facts{.title = study_.title,
                     .warmup = study_.measure.warmup,
                     .rows = ReadRows(study_, rows_, directory_),
                     .baseline = BaselineIndex(study_, rows_),
                     .columns = ParseColumns(command_.columns)};
    for (const StudyRow& row : rows_) {
      facts.facts.push_back(row.facts);
      if (!study_.axes.empty()) facts.groups.push_back(GroupOf(row));
    }
    ordered_json json = StudyJson(facts);
    for (const char* format : {"json", "csv", "tex", "svg"}) {
      directory_.Write(std::string("study.") + format, StudyFile(format, json, facts));
    }
    directory_.Write("report.html", StudyFile("html", json, facts));
    return json;
  }

  void OnEnd(const StudyRun& run, const Outcome& outcome, const RunProgress& progress) {
    const ordered_json study = Write();
    const ordered_json& row = study.at("rows").at(run.row);
    const std::string& name = rows_[run.row].name;
    const bool one = run.index == 0 && PlannedRuns(study_, rows_[run.row]) == 1;
    Say(fmt::format("[{}/{}] {}{}: {}; {:.1f} s, {} left", progress.ended, progress.all, name,
                    one ? "" : fmt::format(" ({})", run.index + 1),
                    outcome.status == Status::kDone && row.contains("step_ms")
                        ? Figures(row)
                        : fmt::format("{}: {}", Name(outcome.status), outcome.reason),
                    outcome.seconds, FormatDuration(progress.seconds_left)));
    if (!progress.repeated.empty()) Say(fmt::format("  {}: {}", name, progress.repeated));
    SayFront(study);
  }

  // Prints the study's progress; on stderr if a program reads stdout (--json).
  void Say(const std::string& text) const {
    command_.json ? PrintNote(text + "\n") : PrintProgress(text + "\n");
  }

 private:
  static std::string Bytes(const ordered_json& row) {
    return FormatBytes(std::llround(row.at("peak_bytes").get<double>()));
  }

  static std::string Figures(const ordered_json& row) {
    std::string text = fmt::format("{:.4g} ms a step", row.at("step_ms").get<double>());
    if (row.at("peak_bytes").is_number()) text += ", " + Bytes(row);
    const ordered_json& loss = row.at("loss");
    return loss.is_number() ? text + fmt::format(", loss {:.5g}", loss.get<double>()) : text;
  }

  // Prints the rows that no other row beats in both memory and time, if they have changed.
  void SayFront(const ordered_json& study) {
    std::vector<std::tuple<double, std::string, std::string>> front;  // bytes, line, name
    for (const ordered_json& row : study.at("rows")) {
      if (row.value("on_front", ordered_json()) != true) continue;
      const auto name = row.at("name").get<std::string>();
      front.emplace_back(row.at("peak_bytes").get<double>(),
                         fmt::format("\n    {:>10}  {:>9.4g} ms  {}", Bytes(row),
                                     row.at("step_ms").get<double>(), name),
                         name);
    }
    std::ranges::sort(front);
    std::string text = "  best so far, smallest first:", names;
    for (const auto& [bytes, line, name] : front) {
      text += line;
      names += name + "\n";
    }
    if (names == front_) return;
    front_ = names;
    Say(text);
  }

  const AblateCommand& command_;
  const Study& study_;
  const std::vector<StudyRow>& rows_;
  const StudyDirectory& directory_;
  std::string front_;  // the names of the rows that were printed last
};

}  // namespace

void RunAblate(const AblateCommand& command) {
  if (command.reference) return PrintAnswer(StudyReference());
  if (command.file.empty()) {
    throw UserError("plimsoll ablate: name a study file, or ask for --reference");
  }
  ParseColumns(command.columns);  // refuses wrong columns before anything runs
  const std::string text = config::ReadFile(command.file);
  Study study = ParseStudy(text, command.file);
  if (!command.dir.empty()) study.dir = command.dir;
  if (!command.base.empty()) study.base = command.base;
  config::MistakeList mistakes;
  study.settings =
      Overlaid(study.settings, config::ReadLayers("", "--set", nullptr, command.sets, mistakes));
  mistakes.Throw();
  const config::RunConfig base =
      trainer::LoadRun(study.base, SetsOf(study.settings), study.launch.ranks.value_or(1)).config;
  const std::vector<StudyRow> rows = ConfigureRows(study, ExpandGrid(study, base));
  if (command.list) return PrintRows(rows);
  if (std::ranges::none_of(rows, &std::string::empty, &StudyRow::refused)) {
    throw UserError(rows.front().refused);
  }
  size_t runs = 0;
  for (const StudyRow& row : rows) runs += PlannedRuns(study, row);
  if (runs > kManyRuns && !command.yes) RefuseMany(study, base, runs, command.jobs);

  RunnerOptions options{.jobs = command.jobs, .gpus = {}, .retry_failed = command.retry_failed};
  if (command.jobs > 1) {
    options.gpus = VisibleGpus();
    if (options.gpus.empty()) {
      PrintWarning(
          fmt::format("--jobs {}: there are no GPUs to give to each: runs side by side on "
                      "one processor slow each other down",
                      command.jobs));
    } else if (command.jobs > static_cast<int>(options.gpus.size())) {
      throw UserError(fmt::format("--jobs {}: there are {} GPUs; give at most that many",
                                  command.jobs, options.gpus.size()));
    }
  }
  const StudyDirectory directory(study.dir, FingerprintOf(study, rows), text);
  AblationRun ablation(command, study, rows, directory);
  CatchSignals();
  const bool finished =
      RunStudy(study, rows, directory, options,
               {.stopped = [] { return g_stopped != 0; },
                .say = [&](const std::string& text) { ablation.Say(text); },
                .on_end = [&](const auto&... ended) { ablation.OnEnd(ended...); }});
  const ordered_json json = ablation.Write();
  if (!finished) {
    throw UserError(fmt::format("{}: stopped; start it again to continue", study.file),
                    ExitCode::kStoppedBySignal);
  }
  if (command.json) {
    PrintAnswer(json.dump(1) + "\n");
  } else {
    PrintProgress(
        fmt::format("\n{}\n{}results in {}: report.html, study.csv, study.json, study.svg, "
                    "study.tex\n",
                    study.title, StudyText(json), directory.path()));
  }
  RequireAnyResult(study, json);
  if (!LawsHold(json)) {
    throw UserError(fmt::format("{}: a law is broken: see `laws` in {}", study.file,
                                directory.File("study.json")),
                    ExitCode::kInternal);
  }
}

void RunReport(const ReportCommand& command) {
  StudyFacts study;
  study.title = "runs";
  study.columns = ParseColumns(command.columns);
  study.warmup = command.warmup;
  for (const std::string& run : command.runs) {
    Row& row = study.rows.emplace_back();
    row.name = std::filesystem::path(run).lexically_normal().string();
    while (row.name.size() > 1 && row.name.ends_with('/')) row.name.pop_back();
    if (std::ranges::count(study.rows, row.name, &Row::name) > 1) {
      throw UserError(row.name + ": is named twice");
    }
    if (!std::filesystem::exists(run + "/config.yaml")) {
      throw UserError(run + ": holds no run (config.yaml is missing)");
    }
    row.status = Status::kDone;
    AddRun(run, command.warmup, row);
    const auto ranks = static_cast<int64_t>(row.Figure("ranks").value_or(1));
    const config::RunConfig config = trainer::LoadRun(run + "/config.yaml", {}, ranks).config;
    if (row.has_results()) row.runs[0].seed = SeedsOf(config).Text();
    study.facts.push_back(FactsOf(config, ranks));
  }
  // The baseline is the first run that is done and has steps.
  const auto baseline = std::ranges::find_if(study.rows, &Row::measured);
  if (baseline != study.rows.end())
    study.baseline = static_cast<size_t>(baseline - study.rows.begin());
  const ordered_json json = StudyJson(study);
  const auto write = [&](const std::string& path, const std::string& format) {
    if (!path.empty()) WriteOutput(path, "--" + format, StudyFile(format, json, study));
  };
  write(command.html, "html");
  write(command.csv, "csv");
  write(command.tex, "tex");
  write(command.svg, "svg");
  PrintAnswer(command.json ? StudyFile("json", json, study) : StudyText(json));
}

}  // namespace plimsoll::studies
