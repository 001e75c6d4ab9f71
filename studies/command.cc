#include "studies/command.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "base/output_file.h"
#include "runtime/cuda/gpu_report.h"
#include "studies/figures.h"
#include "studies/fixed_calibration.h"
#include "studies/rows.h"
#include "studies/runner.h"
#include "studies/study_json.h"
#include "studies/values.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/run_costs.h"

namespace plimsoll::studies {
namespace {

// Rows with one value of the first axis share a colour: "micro_batch=8".
std::string GroupOf(const StudyRow& row) {
  const auto& [key, value] = row.axes.front();
  return fmt::format("{}={}", key.substr(key.rfind('.') + 1), value);
}

using nlohmann::ordered_json;

// A study of more runs needs a confirmation.
constexpr size_t kManyRuns = 500;
// The time of a process besides its steps, for the first estimate.
constexpr double kStartSeconds = 2;

volatile sig_atomic_t g_stopped = 0;
void Stop(int /*signal*/) { g_stopped = 1; }

void CatchSignals() {
  struct sigaction action = {};
  action.sa_handler = Stop;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

// The GPUs that runs may use, as in CUDA_VISIBLE_DEVICES.
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

// The likely seconds of a run, by built-in rates; nothing where they cannot be estimated.
std::optional<double> EstimateRun(const Study& study, config::RunConfig config) {
  try {
    config.checkpointing.policy = config::CheckpointPolicy::kNone;
    if (trainer::LeavesChoice(config)) return std::nullopt;
    const std::unique_ptr<models::Model> model = trainer::ModelFrom(config);
    const trainer::CompiledStep compiled =
        trainer::Compile(*model, trainer::CompileFrom(config, *model));
    const double step = trainer::PredictSeconds(compiled, trainer::BuiltInCost(config));
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
  throw UserError(fmt::format("{}: {} runs{}; give --yes to start them, or shorten the axes",
                              study.file, runs, time));
}

void RequireAnyRow(const std::vector<StudyRow>& rows) {
  for (const StudyRow& row : rows) {
    if (row.refused.empty()) return;
  }
  throw UserError(rows.front().refused);
}

size_t CountRuns(const Study& study, const std::vector<StudyRow>& rows) {
  size_t runs = 0;
  for (const StudyRow& row : rows) runs += PlannedRuns(study, row);
  return runs;
}

// A study without any result has failed, whatever the status of its rows.
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

// Prints the study's progress; to stderr if stdout is for programs (--json).
void PrintStudy(const AblateCommand& command, const std::string& text) {
  command.json ? PrintNote(text) : PrintProgress(text);
}

class AblationRun {
 public:
  AblationRun(const AblateCommand& command, const Study& study, const std::vector<StudyRow>& rows,
              const StudyDirectory& directory)
      : command_(command),
        study_(study),
        rows_(rows),
        directory_(directory),
        columns_(ParseColumns(command.columns)) {}

  // study.json with all runs so far; also writes it, and the table.
  ordered_json Write() const {
    StudyFacts facts;
    facts.title = study_.title;
    facts.warmup = study_.measure.warmup;
    facts.columns = columns_;
    facts.rows = ReadRows(study_, rows_, directory_);
    facts.baseline = BaselineIndex(study_, rows_);
    for (const StudyRow& row : rows_) {
      facts.facts.push_back(row.facts);
      if (!study_.axes.empty()) {
        facts.groups.push_back(row.axes.empty() ? row.name : GroupOf(row));
      }
    }
    ordered_json json = StudyJson(facts);
    directory_.Write("study.json", json.dump(1) + "\n");
    directory_.Write("study.csv", StudyCsv(json, facts));
    directory_.Write("study.tex", StudyTex(json));
    directory_.Write("study.svg", StudySvg(json));
    directory_.Write("report.html", StudyHtml(json, facts));
    return json;
  }

  void OnEnd(const StudyRun& run, const Outcome& outcome, const Runner::Progress& progress) {
    const ordered_json study = Write();
    const ordered_json& row = study.at("rows").at(run.row);
    std::string found = outcome.status == Status::kDone && row.contains("step_ms")
                            ? Figures(row)
                            : std::string(Name(outcome.status)) + ": " + outcome.reason;
    const bool one = run.index == 0 && PlannedRuns(study_, rows_[run.row]) == 1;
    Say(fmt::format("[{}/{}] {}{}: {}; {:.1f} s, {} left", progress.ended, progress.all,
                    rows_[run.row].name, one ? "" : fmt::format(" ({})", run.index + 1), found,
                    outcome.seconds, FormatDuration(progress.seconds_left)));
    if (!progress.repeated.empty()) {
      Say(fmt::format("  {}: {}", rows_[run.row].name, progress.repeated));
    }
    PrintFront(study);
  }

 private:
  static std::string Figures(const ordered_json& row) {
    std::string text = fmt::format("{:.4g} ms a step", row.at("step_ms").get<double>());
    if (row.at("peak_bytes").is_number()) {
      text += ", " + FormatBytes(std::llround(row.at("peak_bytes").get<double>()));
    }
    if (row.at("loss").is_number())
      text += fmt::format(", loss {:.5g}", row.at("loss").get<double>());
    return text;
  }

  // Prints the rows that no other row beats in both memory and time, when they have changed.
  void PrintFront(const ordered_json& study) {
    std::vector<std::pair<double, std::string>> front;
    for (const ordered_json& row : study.at("rows")) {
      if (!row.contains("on_front") || row.at("on_front") != true) continue;
      front.emplace_back(
          row.at("peak_bytes").get<double>(),
          fmt::format("    {:>10}  {:>9.4g} ms  {}\n",
                      FormatBytes(std::llround(row.at("peak_bytes").get<double>())),
                      row.at("step_ms").get<double>(), row.at("name").get<std::string>()));
    }
    std::sort(front.begin(), front.end());
    std::string text, names;
    for (const auto& [bytes, line] : front) {
      text += line;
      names += line.substr(line.rfind("  ")) + "\n";
    }
    if (names == front_) return;
    front_ = names;
    Say("  best so far, smallest first:\n" + text.substr(0, text.size() - 1));
  }

  void Say(const std::string& text) const { PrintStudy(command_, text + "\n"); }

  const AblateCommand& command_;
  const Study& study_;
  const std::vector<StudyRow>& rows_;
  const StudyDirectory& directory_;
  const std::vector<std::string> columns_;
  std::string front_;
};

}  // namespace

void RunAblate(const AblateCommand& command) {
  if (command.reference) {
    PrintAnswer(StudyReference());
    return;
  }
  if (command.file.empty())
    throw UserError("plimsoll ablate: name a study file, or ask for --reference");
  ParseColumns(command.columns);  // refuses mistakes before anything runs
  const std::string text = config::ReadFile(command.file);
  Study study = ParseStudy(text, command.file);
  if (!command.dir.empty()) study.dir = command.dir;
  if (!command.base.empty()) study.base = command.base;
  config::MistakeList mistakes;
  const config::KeyTrees layers = config::ReadLayers("", "--set", nullptr, command.sets, mistakes);
  mistakes.Throw();
  for (const auto& [key, value] : layers) {
    study.settings[key] = value;
  }
  std::vector<std::string> sets;
  for (const auto& [key, value] : study.settings) sets.push_back(SetArgument(key, value));
  const config::RunConfig base =
      trainer::LoadRun(study.base, sets, study.launch.ranks.value_or(1)).config;
  const std::vector<StudyRow> rows = ConfigureRows(study, ExpandGrid(study, base));
  if (command.list) return PrintRows(rows);
  RequireAnyRow(rows);
  const size_t runs = CountRuns(study, rows);
  if (runs > kManyRuns && !command.yes) RefuseMany(study, base, runs, command.jobs);

  RunnerOptions options{
      .jobs = command.jobs, .gpus = {}, .retry_failed = command.retry_failed, .calibration = ""};
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
  const auto say = [&command](const std::string& text) { PrintStudy(command, text + "\n"); };
  const auto stopped = [] { return g_stopped != 0; };
  CatchSignals();
  options.calibration = FixCalibration(study, rows, directory, stopped, say);
  Runner runner(study, rows, directory, options);
  const size_t sharing = runner.left_sharing();
  say(fmt::format("{}: {} rows, {} runs of {} steps left to make{}, in {}", study.file, rows.size(),
                  runner.left(), study.measure.all_steps(),
                  sharing == 0 ? ""
                               : fmt::format(" ({} of them of fewer, which share the losses of "
                                             "another row or run)",
                                             sharing),
                  directory.path()));
  const bool finished =
      !stopped() && runner.Run(stopped, [&](const StudyRun& run, const Outcome& outcome,
                                            const Runner::Progress& progress) {
        ablation.OnEnd(run, outcome, progress);
      });
  const ordered_json json = ablation.Write();
  if (!finished) {
    throw UserError(fmt::format("{}: stopped; start it again to continue", study.file),
                    ExitCode::kStoppedBySignal);
  }
  if (command.json) {
    PrintAnswer(fmt::format("{}\n", json.dump(1)));
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
    for (size_t i = 0; i + 1 < study.rows.size(); ++i) {
      if (study.rows[i].name == row.name) throw UserError(row.name + ": is named twice");
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
  // The baseline is the first run that is done, and made steps.
  const auto baseline = std::ranges::find_if(study.rows, &Row::measured);
  if (baseline != study.rows.end()) {
    study.baseline = static_cast<size_t>(baseline - study.rows.begin());
  }
  const ordered_json json = StudyJson(study);
  if (!command.html.empty()) WriteOutput(command.html, "--html", StudyHtml(json, study));
  if (!command.csv.empty()) WriteOutput(command.csv, "--csv", StudyCsv(json, study));
  if (!command.tex.empty()) WriteOutput(command.tex, "--tex", StudyTex(json));
  if (!command.svg.empty()) WriteOutput(command.svg, "--svg", StudySvg(json));
  if (command.json) {
    PrintAnswer(fmt::format("{}\n", json.dump(1)));
  } else {
    PrintAnswer(StudyText(json));
  }
}

}  // namespace plimsoll::studies
