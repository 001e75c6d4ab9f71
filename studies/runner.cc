#include "studies/runner.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/output_file.h"
#include "base/own_program.h"
#include "trainer/data/random.h"

namespace plimsoll::studies {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// What a child gets to end in: mpirun has ranks to end.
constexpr double kPatienceSeconds = 10;
// Profiled steps are told node by node and take longer; a few are enough.
constexpr int64_t kProfiledSteps = 3;

// A row is run up to three times, each in a process of its own: for its times, for the bytes that
// it uses, and node by node. The last two are no part of its times.
enum class Pass { kMeasure, kCheck, kProfile, kEnd };

std::string SignalText(int signal) {
  return fmt::format("ended by signal {} ({}){}", signal, strsignal(signal),
                     signal == SIGKILL ? ", as the system does when memory runs out" : "");
}

std::vector<std::string> WordsOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string Replace(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// Of what a run said on its way out: the last message, or the first under mpirun, which says more
// about itself than about the program.
std::string LastWords(const std::string& errors, bool mpirun) {
  std::vector<std::string> messages;
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("warning:") || line.starts_with("---")) continue;
    // Where the study's own settings stand is no help.
    if (line.starts_with("--set: ")) line.erase(0, 7);
    if (line.starts_with(' ') && !messages.empty()) {
      messages.back() += " " + line.substr(line.find_first_not_of(' '));
    } else {
      messages.push_back(line);
    }
  }
  if (messages.empty()) return "";
  return mpirun ? messages.front() : messages.back();
}

}  // namespace

std::vector<StudyRun> OrderedRuns(const Study& study, size_t rows) {
  std::vector<StudyRun> runs;
  for (int64_t repeat = 0; repeat < study.repeats; ++repeat) {
    const uint64_t key =
        data::Hash(static_cast<uint64_t>(study.order_seed), static_cast<uint64_t>(repeat));
    const data::Permutation shuffled(rows, key);
    for (size_t i = 0; i < rows; ++i) {
      runs.push_back({study.order == RunOrder::kShuffled ? shuffled(i) : i, repeat});
    }
  }
  return runs;
}

struct Runner::Active {
  StudyRun run;
  Pass pass = Pass::kMeasure;
  std::string directory;
  std::vector<std::string> gpus;
  Clock::time_point start = Clock::now();
  std::unique_ptr<Process> process;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
};

Runner::Runner(const Study& study, const std::vector<StudyRow>& rows,
               const StudyDirectory& directory, const RunnerOptions& options)
    : study_(study),
      rows_(rows),
      directory_(directory),
      options_(options),
      failed_(rows.size()),
      free_gpus_(options.gpus) {
  std::vector<StudyRun> runs = OrderedRuns(study, rows.size());
  for (const StudyRun& run : runs) {
    const StudyRow& row = rows[run.row];
    if (!row.refused.empty()) {
      failed_[run.row] = true;
      continue;
    }
    const auto outcome = ReadOutcome(directory.Run(row.folder, run.repeat) + "/outcome.json");
    if (outcome && outcome->status == Status::kDone) {
      ++ended_;
    } else if (outcome && !options.retry_failed) {
      ++ended_;
      failed_[run.row] = true;
    } else {
      runs_.push_back(run);
    }
    if (outcome) seconds_.push_back(outcome->seconds);
  }
  std::erase_if(runs_, [&](const StudyRun& run) { return SkipsRow(run.row); });
  all_ = ended_ + runs_.size();
  std::reverse(runs_.begin(), runs_.end());
}

Runner::~Runner() = default;

size_t Runner::left() const { return runs_.size(); }

std::string Runner::PassDirectory(const Active& active) const {
  switch (active.pass) {
    case Pass::kCheck:
      return active.directory + "/check";
    case Pass::kProfile:
      return active.directory + "/profile";
    default:
      return active.directory;
  }
}

std::vector<std::string> Runner::Arguments(const Active& active) const {
  const StudyRow& row = rows_[active.run.row];
  if (!row.command.empty()) return {"/bin/sh", "-c", row.command};
  std::vector<std::string> arguments;
  if (row.ranks > 1) {
    arguments = WordsOf(Replace(study_.launch.mpirun, "{ranks}", std::to_string(row.ranks)));
  }
  arguments.insert(arguments.end(), {OwnProgram(), "train", study_.base});
  std::vector<std::string> sets = row.Sets();
  const std::vector<std::string> own = MeasuringSets(study_);
  sets.insert(sets.end(), own.begin(), own.end());
  sets.push_back("run.dir=" + PassDirectory(active));
  sets.push_back("run.overwrite=true");
  if (active.pass == Pass::kCheck) {
    sets.insert(sets.end(), {"debug.check_arena=true", "train.stop_after=1"});
  }
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  if (active.pass == Pass::kProfile) {
    const int64_t count = std::min(kProfiledSteps, study_.measure.steps);
    arguments.push_back(fmt::format("--profile={}:{}", study_.measure.warmup, count));
  }
  return arguments;
}

void Runner::StartPass(Active& active) {
  const StudyRow& row = rows_[active.run.row];
  const std::string folder = PassDirectory(active);
  fs::create_directories(folder);
  ProcessOptions options{
      .arguments = Arguments(active), .out = folder + "/log.txt", .error = folder + "/errors.txt"};
  if (options_.jobs > 1 && !active.gpus.empty()) {
    options.environment.emplace_back("CUDA_VISIBLE_DEVICES",
                                     fmt::format("{}", fmt::join(active.gpus, ",")));
  }
  if (!row.command.empty()) {
    options.environment.emplace_back("PLIMSOLL_WARMUP", std::to_string(study_.measure.warmup));
    options.environment.emplace_back("PLIMSOLL_STEPS", std::to_string(study_.measure.steps));
  }
  active.process = std::make_unique<Process>(options);
}

void Runner::StartNext() {
  while (!runs_.empty() && static_cast<int>(active_.size()) < options_.jobs) {
    const StudyRun run = runs_.back();
    if (SkipsRow(run.row)) {
      runs_.pop_back();
      --all_;
      continue;
    }
    const size_t gpus = std::min(options_.gpus.size(), static_cast<size_t>(rows_[run.row].ranks));
    if (free_gpus_.size() < gpus) return;  // until others end
    runs_.pop_back();
    auto active = std::make_unique<Active>();
    active->run = run;
    active->directory = directory_.Run(rows_[run.row].folder, run.repeat);
    active->gpus.assign(free_gpus_.end() - static_cast<std::ptrdiff_t>(gpus), free_gpus_.end());
    free_gpus_.resize(free_gpus_.size() - gpus);
    fs::remove_all(active->directory);  // what a run left that was stopped
    StartPass(*active);
    active_.push_back(std::move(active));
  }
}

bool Runner::Advance(Active& active) {
  const StudyRow& row = rows_[active.run.row];
  const bool more = row.command.empty() && active.run.repeat == 0;
  const bool check = more && study_.measure.check_arena && row.has_arena;
  const bool profile = more && study_.measure.profile;
  do {
    active.pass = static_cast<Pass>(static_cast<int>(active.pass) + 1);
  } while ((active.pass == Pass::kCheck && !check) || (active.pass == Pass::kProfile && !profile));
  if (active.pass == Pass::kEnd) return false;
  StartPass(active);
  return true;
}

Outcome Runner::Failure(const Active& active, const ProcessEnd& end) const {
  const StudyRow& row = rows_[active.run.row];
  const std::string said =
      LastWords(ReadText(PassDirectory(active) + "/errors.txt"), row.ranks > 1);
  Outcome outcome{.status = Status::kFailed, .reason = said, .seconds = active.seconds()};
  const bool ours = row.command.empty();
  if (ours && (end.exit_code == static_cast<int>(ExitCode::kBudgetNotMet) ||
               end.exit_code == static_cast<int>(ExitCode::kUserMistake))) {
    outcome.status = Status::kInfeasible;
  }
  if (end.signal != 0) {
    outcome.reason = SignalText(end.signal) + (said.empty() ? "" : "; " + said);
  } else if (said.empty() || !ours) {
    outcome.reason = fmt::format("exit code {}{}{}", end.exit_code, said.empty() ? "" : ": ", said);
  }
  const char* const pass = active.pass == Pass::kCheck     ? "while checking the arena: "
                           : active.pass == Pass::kProfile ? "while profiling: "
                                                           : "";
  outcome.reason = pass + outcome.reason;
  return outcome;
}

std::optional<Outcome> Runner::Look(Active& active) {
  if (study_.broken.seconds && active.seconds() > *study_.broken.seconds &&
      !active.process->Poll()) {
    active.process->End(kPatienceSeconds);
    return Outcome{
        .status = Status::kTimedOut,
        .reason = fmt::format("took longer than {:g} s (broken.seconds)", *study_.broken.seconds),
        .seconds = active.seconds()};
  }
  const std::optional<ProcessEnd> end = active.process->Poll();
  if (!end) return std::nullopt;
  if (end->exit_code != 0) return Failure(active, *end);
  if (Advance(active)) return std::nullopt;
  Outcome outcome{.status = Status::kDone, .reason = "", .seconds = active.seconds()};
  if (!rows_[active.run.row].command.empty()) {
    try {
      Row row;
      AddOutput(ReadText(active.directory + "/log.txt"), row);
    } catch (const UserError& error) {
      outcome.status = Status::kFailed;
      outcome.reason = error.what();
    }
  }
  return outcome;
}

void Runner::End(Active& active, const Outcome& outcome, const OnEnd& on_end) {
  OutputFile file(active.directory + "/outcome.json");
  file.Write(ToJson(outcome).dump(1) + "\n");
  file.Commit();
  if (outcome.status != Status::kDone) failed_[active.run.row] = true;
  free_gpus_.insert(free_gpus_.end(), active.gpus.begin(), active.gpus.end());
  seconds_.push_back(outcome.seconds);
  ++ended_;
  double sum = 0;
  for (const double seconds : seconds_) sum += seconds;
  const double mean = sum / static_cast<double>(seconds_.size());
  on_end(active.run, outcome, ended_, all_,
         mean * static_cast<double>(all_ - ended_) / options_.jobs);
}

bool Runner::Run(const std::function<bool()>& stopped, const OnEnd& on_end) {
  while (true) {
    StartNext();
    if (active_.empty()) return true;
    for (size_t i = 0; i < active_.size(); ++i) {
      Active& active = *active_[i];
      const std::optional<Outcome> outcome = Look(active);
      if (!outcome) continue;
      End(active, *outcome, on_end);
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i--));
    }
    if (stopped()) {
      for (const auto& active : active_) active->process->End(kPatienceSeconds);
      active_.clear();
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace plimsoll::studies
