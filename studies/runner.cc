#include "studies/runner.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/output_file.h"
#include "base/random.h"
#include "studies/command_output.h"
#include "studies/rows.h"
#include "studies/shared_curves.h"

namespace plimsoll::studies {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

void WriteFile(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.Write(text);
  file.Commit();
}

// Seconds for a child to end: mpirun has to end its ranks.
constexpr double kPatienceSeconds = 10;
// Profiled steps are timed node by node and take longer; a few are enough.
constexpr int64_t kProfiledSteps = 3;

// A row is run up to three times, each in a process of its own: for its times, for the bytes that
// it uses, and node by node. Only the first gives the row's times.
enum class Pass { kMeasure, kCheck, kProfile, kEnd };

std::string SignalText(int signal) {
  return fmt::format("ended by signal {} ({}){}", signal, strsignal(signal),
                     signal == SIGKILL ? ", as the system does when memory runs out" : "");
}

// From a run's error output: the last message, or under mpirun the first, since mpirun's later
// messages are more about itself than about the program.
std::string LastWords(const std::string& errors, bool mpirun) {
  std::vector<std::string> messages;
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("warning:") || line.starts_with("---")) continue;
    // The place of the study's own settings does not help.
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

std::vector<StudyRun> OrderedRuns(const Study& study, const std::vector<StudyRow>& rows) {
  size_t most = 0;
  for (const StudyRow& row : rows) most = std::max(most, PlannedRuns(study, row));
  std::vector<StudyRun> runs;
  for (size_t index = 0; index < most; ++index) {
    const uint64_t key = Hash(static_cast<uint64_t>(study.order_seed), index);
    const Permutation shuffled(rows.size(), key);
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t row = study.order == RunOrder::kShuffled ? shuffled(i) : i;
      if (index < PlannedRuns(study, rows[row])) runs.push_back({row, index});
    }
  }
  return runs;
}

struct Runner::Active {
  StudyRun run;
  int64_t steps = 0;  // to make
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
      shared_steps_(SharedSteps(study.measure.warmup, study.measure.all_steps())),
      options_(options),
      failed_(rows.size()),
      made_(rows.size()),
      free_gpus_(options.gpus) {
  std::map<std::string, int> known;
  for (const StudyRow& row : rows) {
    std::vector<int>& claims = claims_.emplace_back(row.seeds.size(), -1);
    if (row.facts.numbers.empty()) continue;
    for (size_t i = 0; i < claims.size(); ++i) {
      const std::string claim = row.run_seeds[i].Text() + "\n" + row.facts.numbers;
      claims[i] = known.emplace(claim, static_cast<int>(known.size())).first->second;
    }
  }
  const auto look = [&](const StudyRun& run) {
    const auto outcome =
        ReadOutcome(directory.Run(rows[run.row].folder, run.index) + "/outcome.json");
    if (!outcome) return false;
    if (outcome->status == Status::kDone) {
      CountDone(run, outcome->steps);
    } else if (options.retry_failed) {
      return false;
    } else {
      failed_[run.row] = true;
    }
    ++ended_;
    seconds_.push_back(outcome->seconds);
    return true;
  };
  for (const StudyRun& run : OrderedRuns(study, rows)) {
    if (!rows[run.row].refused.empty()) {
      failed_[run.row] = true;
    } else if (!look(run)) {
      runs_.push_back(run);
    }
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t index = PlannedRuns(study, rows[row]); look({row, index});) ++index;
  }
  std::erase_if(runs_, [&](const StudyRun& run) { return SkipsRow(run.row); });
  for (size_t row = 0; row < rows.size(); ++row) Repeat(row);
  all_ = ended_ + runs_.size();
}

Runner::~Runner() = default;

int Runner::ClaimOf(const StudyRun& run) const {
  return claims_[run.row][run.index % rows_[run.row].seeds.size()];
}

size_t Runner::left_sharing() const {
  if (shared_steps_ == study_.measure.all_steps()) return 0;
  std::map<int, int64_t> whole = whole_;
  return static_cast<size_t>(std::ranges::count_if(runs_, [&](const StudyRun& run) {
    return ClaimOf(run) >= 0 && !whole.emplace(ClaimOf(run), 0).second;
  }));
}

bool Runner::Waits(const StudyRun& run) const {
  const int claim = ClaimOf(run);
  const int64_t all_steps = study_.measure.all_steps();
  if (claim < 0 || whole_.contains(claim) || shared_steps_ == all_steps) return false;
  if (std::ranges::any_of(active_, [&](const auto& active) {
        return ClaimOf(active->run) == claim && active->steps == all_steps;
      })) {
    return true;
  }
  // The baseline trains to the end if it can, otherwise the first row does.
  const size_t baseline = BaselineIndex(study_, rows_);
  if (run.row == baseline) return false;
  return std::ranges::any_of(runs_, [&](const StudyRun& other) {
    return ClaimOf(other) == claim && (other.row == baseline || other.row < run.row);
  });
}

int64_t Runner::StepsOf(const StudyRun& run) const {
  const auto whole = whole_.find(ClaimOf(run));
  return ClaimOf(run) >= 0 && whole != whole_.end() ? whole->second : study_.measure.all_steps();
}

void Runner::CountDone(const StudyRun& run, int64_t steps) {
  ++made_[run.row];
  const int64_t all_steps = study_.measure.all_steps();
  if (steps < all_steps) return;
  const nlohmann::ordered_json summary =
      ReadJson(directory_.Run(rows_[run.row].folder, run.index) + "/summary.json");
  whole_.emplace(ClaimOf(run), SharedSteps(study_.measure.warmup, all_steps, summary));
}

double Runner::VariationOf(size_t row) const {
  const Row result = ReadRow(study_, rows_[row], directory_);
  return result.measured() ? SpreadOf(result).variation : 0;
}

std::string Runner::Repeat(size_t row) {
  const size_t planned = PlannedRuns(study_, rows_[row]);
  if (!study_.measure.repeat_unsteady || SkipsRow(row) || made_[row] < planned ||
      made_[row] >= planned + kMostRepeats) {
    return "";
  }
  const double variation = VariationOf(row);
  if (variation < kSteady) return "";
  runs_.push_back({row, made_[row]});
  all_ = std::max(all_, ended_ + active_.size() + runs_.size());
  return fmt::format("its times vary by {:.1f} %, so that it runs again, {} of at most {} times",
                     variation * 100, made_[row] - planned + 1, kMostRepeats);
}

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
  std::vector<std::string> sets = {"run.dir=" + PassDirectory(active), "run.overwrite=true",
                                   "memory.calibration=" + options_.calibration,
                                   StepsSet(active.pass == Pass::kCheck ? 1 : active.steps)};
  if (active.pass == Pass::kCheck) sets.push_back("debug.check_arena=true");
  std::vector<std::string> arguments =
      TrainArguments(study_, row, active.run.index % row.seeds.size(), sets);
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
    const size_t seed = active.run.index % row.seeds.size();
    options.environment.emplace_back("PLIMSOLL_WARMUP", std::to_string(study_.measure.warmup));
    options.environment.emplace_back("PLIMSOLL_STEPS", std::to_string(study_.measure.steps));
    options.environment.emplace_back("PLIMSOLL_SEED", std::to_string(row.run_seeds[seed].train));
  }
  active.process = std::make_unique<Process>(options);
}

void Runner::StartNext() {
  const size_t before = runs_.size();
  std::erase_if(runs_, [&](const StudyRun& run) { return SkipsRow(run.row); });
  all_ -= before - runs_.size();
  while (static_cast<int>(active_.size()) < options_.jobs && StartOne()) continue;
}

bool Runner::StartOne() {
  const auto next = std::ranges::find_if(runs_, [&](const StudyRun& run) { return !Waits(run); });
  if (next == runs_.end()) return false;
  const StudyRun run = *next;
  const size_t gpus = std::min(options_.gpus.size(), static_cast<size_t>(rows_[run.row].ranks));
  if (free_gpus_.size() < gpus) return false;  // until others end
  runs_.erase(next);
  auto active = std::make_unique<Active>();
  active->run = run;
  active->steps = StepsOf(run);
  active->directory = directory_.Run(rows_[run.row].folder, run.index);
  active->gpus.assign(free_gpus_.end() - static_cast<std::ptrdiff_t>(gpus), free_gpus_.end());
  free_gpus_.resize(free_gpus_.size() - gpus);
  fs::remove_all(active->directory);  // files of a run that was stopped
  StartPass(*active);
  active_.push_back(std::move(active));
  return true;
}

bool Runner::Advance(Active& active) {
  const StudyRow& row = rows_[active.run.row];
  const bool more = row.command.empty() && active.run.index == 0;
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
  const std::string errors = PassDirectory(active) + "/errors.txt";
  const std::string said =
      row.ranks > 1 ? LastWords(ReadHead(errors), true) : LastWords(ReadTail(errors), false);
  Outcome outcome{.status = Status::kFailed,
                  .reason = said,
                  .seconds = active.seconds(),
                  .steps = active.steps};
  const bool ours = row.command.empty();
  // Impossible configurations have been refused before (configure.h).
  if (ours && end.exit_code == static_cast<int>(ExitCode::kBudgetNotMet)) {
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
        .seconds = active.seconds(),
        .steps = active.steps};
  }
  const std::optional<ProcessEnd> end = active.process->Poll();
  if (!end) return std::nullopt;
  if (end->exit_code != 0) return Failure(active, *end);
  if (Advance(active)) return std::nullopt;
  Outcome outcome{
      .status = Status::kDone, .reason = "", .seconds = active.seconds(), .steps = active.steps};
  if (rows_[active.run.row].command.empty()) return outcome;
  try {
    const nlohmann::ordered_json printed = LastObject(active.directory + "/log.txt");
    CheckOutput(printed);
    WriteFile(active.directory + "/summary.json", printed.dump(1) + "\n");
  } catch (const UserError& error) {
    outcome.status = Status::kFailed;
    outcome.reason = error.what();
  }
  return outcome;
}

void Runner::End(Active& active, const Outcome& outcome, const OnEnd& on_end) {
  for (const char* file : {"/log.txt", "/errors.txt"}) KeepTail(active.directory + file);
  WriteFile(active.directory + "/outcome.json", ToJson(outcome).dump(1) + "\n");
  const size_t row = active.run.row;
  if (outcome.status == Status::kDone) {
    CountDone(active.run, outcome.steps);
  } else {
    failed_[row] = true;
  }
  free_gpus_.insert(free_gpus_.end(), active.gpus.begin(), active.gpus.end());
  seconds_.push_back(outcome.seconds);
  ++ended_;
  const std::string repeated = Repeat(row);
  double sum = 0;
  for (const double seconds : seconds_) sum += seconds;
  const double mean = sum / static_cast<double>(seconds_.size());
  on_end(active.run, outcome,
         {.ended = ended_,
          .all = all_,
          .seconds_left = mean * static_cast<double>(all_ - ended_) / options_.jobs,
          .repeated = repeated});
}

bool Runner::Run(const std::function<bool()>& stopped, const OnEnd& on_end) {
  while (true) {
    StartNext();
    if (active_.empty()) return true;
    for (size_t i = 0; i < active_.size(); ++i) {
      Active& active = *active_[i];
      const std::optional<Outcome> outcome = Look(active);
      if (!outcome) continue;
      const std::unique_ptr<Active> ended = std::move(active_[i]);
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i--));
      End(*ended, *outcome, on_end);
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
