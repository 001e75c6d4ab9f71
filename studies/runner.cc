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

#include "base/amounts.h"
#include "base/error.h"
#include "base/output_file.h"
#include "base/random.h"
#include "studies/process.h"
#include "trainer/resolve/calibration.h"

namespace plimsoll::studies {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

void WaitForProcesses() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }

// Seconds in which a child must end: mpirun has to end its ranks first.
constexpr double kPatienceSeconds = 10;
// The number of profiled steps. Few are enough, and each takes longer, since it is timed node by
// node.
constexpr int64_t kProfiledSteps = 3;

// The passes of a row, each in its own process. They measure its times, the bytes that it uses, and
// the time of each node. Only the first pass gives the row's times.
enum class Pass { kMeasure, kCheck, kProfile, kEnd };

std::string SignalText(int signal) {
  return fmt::format("ended by signal {} ({}){}", signal, strsignal(signal),
                     signal == SIGKILL ? ", as the system does when memory runs out" : "");
}

// The last message of a run's error output. Under mpirun it is the first message, since mpirun's
// later messages are more about itself than about the program.
std::string LastWords(const std::string& errors, bool mpirun) {
  std::vector<std::string> messages;
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("warning:") || line.starts_with("---")) continue;
    // Drops "--set": the user didn't type the study's own settings.
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

// The rows whose choices depend on calibrations. Without such rows, one row that uses a GPU, so
// that the GPU's profile is measured.
std::vector<const StudyRow*> RowsThatMeasure(const std::vector<StudyRow>& rows) {
  std::vector<const StudyRow*> measure;
  for (const StudyRow& row : rows) {
    if (row.calibrates) measure.push_back(&row);
  }
  const auto on_gpu = std::ranges::find(rows, true, &StudyRow::on_gpu);
  if (measure.empty() && on_gpu != rows.end()) measure.push_back(&*on_gpu);
  return measure;
}

// Runs one step of a row. Returns false if `stopped` returned true. Errors of the run are ignored:
// the row's real runs will show them.
bool RunOneStep(const Study& study, const StudyRow& row, const std::string& folder,
                const std::function<bool()>& stopped) {
  fs::create_directories(folder);
  Process process({.arguments = TrainArguments(study, row, 0,
                                               {"run.dir=" + folder, "run.overwrite=true",
                                                "train.eval_every=0", StepsSet(1)}),
                   .out = folder + "/log.txt",
                   .error = folder + "/errors.txt"});
  while (!process.Poll()) {
    if (stopped()) {
      process.End(kPatienceSeconds);
      return false;
    }
    WaitForProcesses();
  }
  return true;
}

// Runs one step of each row that needs calibration, so that the step measures the machine. Then
// copies all calibrations (trainer/resolve/calibration.h) to the study's directory, once. Returns
// the folder of the copies, or "" if `stopped` returned true; then nothing is copied.
std::string FixCalibration(const Study& study, const std::vector<StudyRow>& rows,
                           const StudyDirectory& directory, const RunWatcher& watcher) {
  const std::string folder = directory.File("calibration");
  std::error_code error;
  if (fs::exists(folder, error)) return folder;
  for (const StudyRow* row : RowsThatMeasure(rows)) {
    watcher.say("measuring this machine for " + row->name);
    const std::string run = directory.File("runs/calibrating");
    const bool done = RunOneStep(study, *row, run, watcher.stopped);
    fs::remove_all(run, error);
    if (!done) return "";
  }
  const std::string partial = folder + ".partial", known = trainer::CalibrationFolder();
  fs::remove_all(partial, error);
  fs::create_directories(partial);
  if (!known.empty() && fs::is_directory(known, error)) {
    fs::copy(known, partial, fs::copy_options::recursive);
  }
  fs::rename(partial, folder);
  return folder;
}

class Runner {
 public:
  Runner(const Study& study, const std::vector<StudyRow>& rows, const StudyDirectory& directory,
         const RunnerOptions& options, const RunWatcher& watcher)
      : study_(study),
        rows_(rows),
        directory_(directory),
        all_steps_(study.measure.all_steps()),
        shared_steps_(SharedSteps(study.measure.warmup, all_steps_)),
        options_(options),
        watcher_(watcher),
        calibration_(FixCalibration(study, rows, directory, watcher)),
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
    for (const StudyRun& run : OrderedRuns(study, rows)) {
      if (!rows[run.row].refused.empty()) {
        failed_[run.row] = true;
      } else if (!WasMade(run)) {
        runs_.push_back(run);
      }
    }
    for (size_t row = 0; row < rows.size(); ++row) {
      for (size_t index = PlannedRuns(study, rows[row]); WasMade({row, index});) ++index;
    }
    DropFailedRows();
    for (size_t row = 0; row < rows.size(); ++row) Repeat(row);
    all_ = ended_ + runs_.size();
  }

  bool Run() {
    const size_t sharing = LeftSharing();
    watcher_.say(fmt::format(
        "{}: {}, {} of {} left to make{}, in {}", study_.file, Counted(rows_.size(), "row"),
        Counted(runs_.size(), "run"), Counted(all_steps_, "step"),
        sharing == 0 ? ""
                     : fmt::format(" ({} of them of fewer, which share the losses of "
                                   "another row or run)",
                                   sharing),
        directory_.path()));
    while (!watcher_.stopped()) {
      all_ -= DropFailedRows();
      while (static_cast<int>(active_.size()) < options_.jobs && StartOne()) continue;
      if (active_.empty()) return true;
      for (size_t i = 0; i < active_.size(); ++i) {
        const std::optional<Outcome> outcome = Look(*active_[i]);
        if (!outcome) continue;
        const std::unique_ptr<Active> ended = std::move(active_[i]);
        active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i--));
        End(*ended, *outcome);
      }
      WaitForProcesses();
    }
    for (const auto& active : active_) active->process->End(kPatienceSeconds);
    return false;
  }

 private:
  struct Active {
    StudyRun run;
    int64_t steps = 0;  // number of steps to make
    Pass pass = Pass::kMeasure;
    std::string directory;
    std::vector<std::string> gpus;
    Clock::time_point start = Clock::now();
    std::unique_ptr<Process> process;

    double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
    Outcome Ended(Status status, const std::string& reason) const {
      return {.status = status, .reason = reason, .seconds = seconds(), .steps = steps};
    }
  };

  std::string DirectoryOf(const StudyRun& run) const {
    return directory_.Run(rows_[run.row].folder, run.index);
  }

  size_t SeedOf(const StudyRun& run) const { return run.index % rows_[run.row].seeds.size(); }

  // Counts a run whose outcome is in the study's directory. Returns false if the run has yet to be
  // made.
  bool WasMade(const StudyRun& run) {
    const auto outcome = ReadOutcome(DirectoryOf(run) + "/outcome.json");
    if (!outcome || (outcome->status != Status::kDone && options_.retry_failed)) return false;
    Count(run, *outcome);
    return true;
  }

  void Count(const StudyRun& run, const Outcome& outcome) {
    ++ended_;
    seconds_.push_back(outcome.seconds);
    if (outcome.status != Status::kDone) {
      failed_[run.row] = true;
      return;
    }
    ++made_[run.row];
    if (outcome.steps < all_steps_) return;
    const nlohmann::ordered_json summary = ReadJson(DirectoryOf(run) + "/summary.json");
    whole_.emplace(ClaimOf(run), SharedSteps(study_.measure.warmup, all_steps_, summary));
  }

  // Drops the remaining runs of rows that failed. Returns the number of dropped runs.
  size_t DropFailedRows() {
    return std::erase_if(runs_, [&](const StudyRun& run) { return failed_[run.row]; });
  }

  // The number of the run's claim. Runs that claim the same losses (RowFacts::numbers and the seed)
  // have the same number. -1 means that the run makes no claim.
  int ClaimOf(const StudyRun& run) const { return claims_[run.row][SeedOf(run)]; }

  // The number of remaining runs that will share another run's losses.
  size_t LeftSharing() const {
    if (shared_steps_ == all_steps_) return 0;
    std::map<int, int64_t> whole = whole_;
    return static_cast<size_t>(std::ranges::count_if(runs_, [&](const StudyRun& run) {
      return ClaimOf(run) >= 0 && !whole.emplace(ClaimOf(run), 0).second;
    }));
  }

  // True if another run must finish first because this run may share its losses.
  bool Waits(const StudyRun& run) const {
    const int claim = ClaimOf(run);
    if (claim < 0 || whole_.contains(claim) || shared_steps_ == all_steps_) return false;
    if (std::ranges::any_of(active_, [&](const auto& active) {
          return ClaimOf(active->run) == claim && active->steps == all_steps_;
        })) {
      return true;
    }
    // The baseline trains to the end if it makes the claim; otherwise the first row does.
    const size_t baseline = BaselineIndex(study_, rows_);
    if (run.row == baseline) return false;
    return std::ranges::any_of(runs_, [&](const StudyRun& other) {
      return ClaimOf(other) == claim && (other.row == baseline || other.row < run.row);
    });
  }

  int64_t StepsOf(const StudyRun& run) const {
    const auto whole = whole_.find(ClaimOf(run));
    return ClaimOf(run) >= 0 && whole != whole_.end() ? whole->second : all_steps_;
  }

  // Queues another run of the row if its times vary too much, and returns the reason. Returns an
  // empty text if the times are steady or the row has had enough runs.
  std::string Repeat(size_t row) {
    const size_t planned = PlannedRuns(study_, rows_[row]);
    if (!study_.measure.repeat_unsteady || failed_[row] || made_[row] < planned ||
        made_[row] >= planned + kMostRepeats) {
      return "";
    }
    const Row result = ReadRow(study_, rows_[row], directory_);
    const double variation = result.measured() ? SpreadOf(result).variation : 0;
    if (variation < kSteady) return "";
    runs_.push_back({row, made_[row]});
    all_ = std::max(all_, ended_ + active_.size() + runs_.size());
    return fmt::format("its times vary by {:.1f} %, so that it runs again, {} of at most {}",
                       variation * 100, made_[row] - planned + 1, Counted(kMostRepeats, "time"));
  }

  static std::string PassDirectory(const Active& active) {
    return active.directory + (active.pass == Pass::kCheck     ? "/check"
                               : active.pass == Pass::kProfile ? "/profile"
                                                               : "");
  }

  std::vector<std::string> Arguments(const Active& active) const {
    const StudyRow& row = rows_[active.run.row];
    if (!row.command.empty()) return {"/bin/sh", "-c", row.command};
    std::vector<std::string> sets = {"run.dir=" + PassDirectory(active), "run.overwrite=true",
                                     "memory.calibration=" + calibration_,
                                     StepsSet(active.pass == Pass::kCheck ? 1 : active.steps)};
    if (active.pass == Pass::kCheck) sets.push_back("debug.check_arena=true");
    std::vector<std::string> arguments = TrainArguments(study_, row, SeedOf(active.run), sets);
    if (active.pass == Pass::kProfile) {
      const int64_t count = std::min(kProfiledSteps, study_.measure.steps);
      arguments.push_back(fmt::format("--profile={}:{}", study_.measure.warmup, count));
    }
    return arguments;
  }

  void StartPass(Active& active) {
    const StudyRow& row = rows_[active.run.row];
    const std::string folder = PassDirectory(active);
    fs::create_directories(folder);
    ProcessOptions options{.arguments = Arguments(active),
                           .out = folder + "/log.txt",
                           .error = folder + "/errors.txt"};
    if (options_.jobs > 1 && !active.gpus.empty()) {
      options.environment.emplace_back("CUDA_VISIBLE_DEVICES",
                                       fmt::format("{}", fmt::join(active.gpus, ",")));
    }
    if (!row.command.empty()) {
      const int64_t seed = row.run_seeds[SeedOf(active.run)].train;
      options.environment.emplace_back("PLIMSOLL_WARMUP", std::to_string(study_.measure.warmup));
      options.environment.emplace_back("PLIMSOLL_STEPS", std::to_string(study_.measure.steps));
      options.environment.emplace_back("PLIMSOLL_SEED", std::to_string(seed));
    }
    active.process = std::make_unique<Process>(options);
  }

  // Starts the next run that can start. Returns false if none can.
  bool StartOne() {
    const auto next = std::ranges::find_if(runs_, [&](const StudyRun& run) { return !Waits(run); });
    if (next == runs_.end()) return false;
    const StudyRun run = *next;
    const size_t gpus = std::min(options_.gpus.size(), static_cast<size_t>(rows_[run.row].ranks));
    if (free_gpus_.size() < gpus) return false;  // waits until other runs end
    runs_.erase(next);
    auto active = std::make_unique<Active>();
    active->run = run;
    active->steps = StepsOf(run);
    active->directory = DirectoryOf(run);
    active->gpus.assign(free_gpus_.end() - static_cast<std::ptrdiff_t>(gpus), free_gpus_.end());
    free_gpus_.resize(free_gpus_.size() - gpus);
    fs::remove_all(active->directory);  // removes files of a run that was stopped
    StartPass(*active);
    active_.push_back(std::move(active));
    return true;
  }

  // Starts the next pass of the run; returns false if it has no further pass.
  bool Advance(Active& active) {
    const StudyRow& row = rows_[active.run.row];
    const bool more = row.command.empty() && active.run.index == 0;
    const bool check = more && study_.measure.check_arena && row.has_arena;
    const bool profile = more && study_.measure.profile;
    do {
      active.pass = static_cast<Pass>(static_cast<int>(active.pass) + 1);
    } while ((active.pass == Pass::kCheck && !check) ||
             (active.pass == Pass::kProfile && !profile));
    if (active.pass == Pass::kEnd) return false;
    StartPass(active);
    return true;
  }

  Outcome Failure(const Active& active, const ProcessEnd& end) const {
    const StudyRow& row = rows_[active.run.row];
    const std::string errors = PassDirectory(active) + "/errors.txt";
    const std::string said =
        row.ranks > 1 ? LastWords(ReadHead(errors), true) : LastWords(ReadTail(errors), false);
    const bool ours = row.command.empty();
    std::string reason = said;
    if (end.signal != 0) {
      reason = SignalText(end.signal) + (said.empty() ? "" : "; " + said);
    } else if (said.empty() || !ours) {
      reason = fmt::format("exit code {}{}{}", end.exit_code, said.empty() ? "" : ": ", said);
    }
    const char* const pass = active.pass == Pass::kCheck     ? "while checking the arena: "
                             : active.pass == Pass::kProfile ? "while profiling: "
                                                             : "";
    // Impossible configurations were refused earlier (rows.h).
    const bool infeasible = ours && end.exit_code == static_cast<int>(ExitCode::kBudgetNotMet);
    return active.Ended(infeasible ? Status::kInfeasible : Status::kFailed, pass + reason);
  }

  // Returns the outcome once the run has ended. If the run has a next pass, starts it.
  std::optional<Outcome> Look(Active& active) {
    if (study_.broken.seconds && active.seconds() > *study_.broken.seconds &&
        !active.process->Poll()) {
      active.process->End(kPatienceSeconds);
      return active.Ended(Status::kTimedOut, fmt::format("took longer than {:g} s (broken.seconds)",
                                                         *study_.broken.seconds));
    }
    const std::optional<ProcessEnd> end = active.process->Poll();
    if (!end) return std::nullopt;
    if (end->exit_code != 0) return Failure(active, *end);
    if (Advance(active)) return std::nullopt;
    const Outcome outcome = active.Ended(Status::kDone, "");
    if (rows_[active.run.row].command.empty()) return outcome;
    try {
      const nlohmann::ordered_json printed = LastObject(active.directory + "/log.txt");
      CheckOutput(printed);
      WriteWhole(active.directory + "/summary.json", printed.dump(1) + "\n");
    } catch (const UserError& error) {
      return active.Ended(Status::kFailed, error.what());
    }
    return outcome;
  }

  void End(Active& active, const Outcome& outcome) {
    for (const char* file : {"/log.txt", "/errors.txt"}) KeepTail(active.directory + file);
    WriteWhole(active.directory + "/outcome.json", ToJson(outcome).dump(1) + "\n");
    free_gpus_.insert(free_gpus_.end(), active.gpus.begin(), active.gpus.end());
    Count(active.run, outcome);
    const std::string repeated = Repeat(active.run.row);
    double sum = 0;
    for (const double seconds : seconds_) sum += seconds;
    const double mean = sum / static_cast<double>(seconds_.size());
    watcher_.on_end(active.run, outcome,
                    {.ended = ended_,
                     .all = all_,
                     .seconds_left = mean * static_cast<double>(all_ - ended_) / options_.jobs,
                     .repeated = repeated});
  }

  const Study& study_;
  const std::vector<StudyRow>& rows_;
  const StudyDirectory& directory_;
  // The numbers of steps of a complete run, and of a run that shares another run's curve.
  const int64_t all_steps_, shared_steps_;
  const RunnerOptions& options_;
  const RunWatcher& watcher_;
  const std::string calibration_;         // folder with calibrations of this machine
  std::vector<StudyRun> runs_;            // runs still to start, in order
  std::vector<bool> failed_;              // whether each row has failed and gets no more runs
  std::vector<size_t> made_;              // finished runs of each row
  std::vector<std::vector<int>> claims_;  // the claim of each row and seed
  // For each claim with a complete run, the number of steps of a run that shares its curve.
  std::map<int, int64_t> whole_;
  std::vector<std::unique_ptr<Active>> active_;
  std::vector<std::string> free_gpus_;
  size_t all_ = 0, ended_ = 0;
  std::vector<double> seconds_;  // durations of the finished runs
};

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

bool RunStudy(const Study& study, const std::vector<StudyRow>& rows,
              const StudyDirectory& directory, const RunnerOptions& options,
              const RunWatcher& watcher) {
  return Runner(study, rows, directory, options, watcher).Run();
}

}  // namespace plimsoll::studies
