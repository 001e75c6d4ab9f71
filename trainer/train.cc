#include "trainer/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/amounts.h"
#include "base/axes.h"
#include "base/bytes.h"
#include "base/columns.h"
#include "base/message.h"
#include "base/stage.h"
#include "base/version.h"
#include "data/class_names.h"
#include "data/tokenizers/tokenizer.h"
#include "runtime/process_memory.h"
#include "snapshots/snapshot.h"
#include "trainer/announcement.h"
#include "trainer/closing_summary.h"
#include "trainer/divergence.h"
#include "trainer/gpu_account.h"
#include "trainer/held_out.h"
#include "trainer/language/generate.h"
#include "trainer/plan/memory_timeline.h"
#include "trainer/plan/plan_json.h"
#include "trainer/record/mlflow_facts.h"
#include "trainer/record/progress.h"
#include "trainer/record/run_directory.h"
#include "trainer/record/run_facts.h"
#include "trainer/record/run_metrics.h"
#include "trainer/record/run_reports.h"
#include "trainer/record/run_status.h"
#include "trainer/record/step_record.h"
#include "trainer/run_results.h"
#include "trainer/save_and_resume/read_snapshot.h"
#include "trainer/save_and_resume/resume.h"
#include "trainer/save_and_resume/run_record.h"
#include "trainer/save_and_resume/save_snapshot.h"
#include "trainer/save_and_resume/saver.h"
#include "trainer/save_and_resume/text_ends.h"
#include "trainer/save_and_resume/way_on.h"
#include "trainer/settle/activity.h"
#include "trainer/settle/budget_error.h"
#include "trainer/settle/compile_from.h"
#include "trainer/settle/device_start.h"
#include "trainer/settle/epochs.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/link_rates.h"
#include "trainer/settle/monitor.h"
#include "trainer/settle/ranks.h"
#include "trainer/settle/run_budget.h"
#include "trainer/settle/run_costs.h"
#include "trainer/settle/run_device.h"
#include "trainer/settle/settled_run.h"
#include "trainer/settle/source_from.h"
#include "trainer/starting_weights.h"
#include "trainer/step/session.h"
#include "trainer/step_feed.h"
#include "trainer/step_log.h"
#include "trainer/stop_signal.h"

namespace plimsoll::trainer {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Run {
 public:
  // The arguments must outlive the run; `resumed` is nullptr for a run from the beginning.
  Run(const SettledRun& settled, DeviceStart& device_start, Ranks& ranks, RunDirectory& directory,
      const TrainOptions& options, const Resumed* resumed)
      : config_(settled.config),
        ranks_(ranks),
        directory_(directory),
        resume_command_(options.resume_command),
        chosen_(settled.chosen),
        model_(ModelFrom(config_)),
        under_way_(UnderWay("reading the data", "data")),
        feed_(config_, *model_, ranks.position()),
        resumed_(resumed) {
    if (ranks_.first()) {
      for (const std::string& unused : UnusedKeys(config_, feed_.source())) PrintWarning(unused);
    }
    TakeClassNames();
    DescribeItself();
    PrepareEvaluation();
    const auto begin = [&](const std::string& what, const std::string& stage) {
      under_way_.reset();
      under_way_ = UnderWay(what, stage);
    };
    begin("planning the step" + BoundCoresNote(), "planning");
    CompiledStep compiled = CompileStep(settled.options);
    begin("starting the device", "device");
    device_ = &device_start.Connected(ranks_, config_.parallel.nccl_max_ctas.value_or(0));
    gpu_->CheckFree(compiled.plan);
    if (options.profile) profiler_.emplace(*device_, *options.profile);
    begin(MemoryText(compiled.plan), "memory");
    // What reading text and planning took must not lie beside the arena.
    runtime::ReturnFreeMemory();
    MakeSession(std::move(compiled));
    monitor_ = MonitorFrom(config_, session_->metrics());
    Follow(monitor_, record_.evaluation);
    const StartingWeights weights{config_, *model_, ranks_, *session_, resumed_, record_.base};
    begin(weights.Text(), "weights");
    weights.Fill();
    under_way_.reset();
    if (profiler_) profiler_->Watch(*session_);
    if (Continues()) {
      metrics_ = LinesUntil(directory_.File("metrics.jsonl"), resumed->step,
                            resumed->record.evaluation.last, resumed->record.divergence.rollbacks);
      samples_ = SamplesUntil(directory_.File("samples.jsonl"), resumed->step);
    }
  }

  ~Run() {
    feed_.Stop();
    ranks_.StopWatching();
  }

  // Begins writing the run directory, once all ranks have passed all checks, and announces the run.
  void Begin(const std::string& resolved_yaml, const ordered_json& choices) {
    const Stage stage("run directory");
    ranks_.Barrier();
    if (Continues()) {
      directory_.Continue(metrics_, samples_);
    } else {
      directory_.Begin();
    }
    if (!ranks_.first()) {
      SendOutputTo(directory_.File(fmt::format("rank.{}.log", ranks_.rank())), Continues());
      PrintProgress(Header(config_, *model_));
    }
    directory_.Write("config.yaml", resolved_yaml);
    status_ = StartedNow(config_, resume_command_);
    directory_.Write("run.json", ToJson(status_));
    const CompiledStep& step = session_->compiled();
    const memory::CostModel known = CostModelFor(config_, {});  // times nothing
    predicted_seconds_ = PredictSeconds(step, known);
    if (!chosen_.empty() && known.measured() && config_.memory.calibration.empty()) {
      measured_rates_ = RatesText(config_, known);
    }
    const ordered_json plan = PlanObject(config_, *model_, step, predicted_seconds_, choices);
    directory_.Write("plan.json", plan.dump(1) + "\n");
    const ordered_json timeline = MemoryTimelineJson(step);
    directory_.Write("memory_timeline.json", timeline.dump() + "\n");
    if (ranks_.first()) {
      reports_.emplace(config_, directory_,
                       RunFactsOf(config_, resolved_yaml, *model_, *device_, ranks_.size(), step,
                                  timeline, feed_.source().class_names()),
                       first_step_, metrics_, ModelColumns(step));
    }
    if (!chosen_.empty()) {
      PrintProgress(Wrapped("chosen within memory.budget: " + chosen_, kLineColumns, "  ") + "\n");
    }
    Announce(step, known.rates());
  }

  ExitCode Loop() {
    const Clock::time_point start = Clock::now();
    Progress progress(config_.train.StepsToMake(), first_step_, config_.train.log_every,
                      ranks_.size() == 1, config_.train.steps_per_epoch);
    progress_ = &progress;
    divergence_.emplace(config_, JudgedObjectives(session_->compiled()), first_step_,
                        record_.divergence);
    log_.emplace(StepLog::Parts{config_, *model_, *session_, ranks_, directory_,
                                reports_ ? &*reports_ : nullptr, *gpu_, progress, *divergence_});
    if (config_.save.on_exit) signals_.emplace(config_.save.signal);
    saver_.emplace(config_, *session_, ranks_, directory_,
                   Saver::Says{.progressed = [this] { ranks_.Progress(); },
                               .line = [this](const std::string& text) { progress_->Line(text); }});
    if (resumed_ != nullptr) saver_->GoesOnFrom(resumed_->step);
    StartWatch();
    first_of_process_.emplace("first step");
    try {
      while (!RanToItsEnd()) continue;
    } catch (...) {
      ReportWhatRan();
      throw;
    }
    if (reports_) {
      reports_->End(stopped_by_signal_ ? "stopped by a signal"
                    : stopped_         ? "stopped early"
                                       : "done");
    }
    if (const std::string rates = feed_.RatesText(); !rates.empty()) progress.Line(rates);
    if (const std::string unread = feed_.source().Unread(); !unread.empty()) {
      progress.Line("data: " + unread);
    }
    ranks_.StopWatching();  // the others wait while the model is written
    if (stopped_by_signal_) {
      EndStatus(RunStatus::State::kStopped, signals_->Name());
      progress.Line(fmt::format("stopped by a signal; {} from here",
                                GoesOnText(resume_command_, ranks_.size())));
      return ExitCode::kStoppedBySignal;
    }
    LeaveResults({.config = config_,
                  .source = feed_.source(),
                  .model = *model_,
                  .session = *session_,
                  .ranks = ranks_,
                  .directory = directory_,
                  .log = *log_,
                  .gpu = *gpu_,
                  .progress = progress,
                  .evaluation = record_.evaluation,
                  .counts = divergence_->counts(),
                  .base = record_.base,
                  .chosen = chosen_,
                  .predicted_seconds = predicted_seconds_,
                  .rates = measured_rates_,
                  .data_advice = feed_.Advice(),
                  .steps_done = steps_done_,
                  .steps_run = steps_run_,
                  .start = start});
    progress_ = nullptr;
    left_results_ = true;
    // A first piece of a run (train.stop_after) may well have none.
    const bool whole = steps_done_ >= config_.train.steps || stopped_;
    if (const std::string problem = NoUpdateText(divergence_->counts());
        whole && !problem.empty()) {
      throw UserError(problem, ExitCode::kInternal);
    }
    EndStatus(RunStatus::State::kDone, stopped_ ? "stopped early" : "");
    return ExitCode::kDone;
  }

  // What an error that ends the run says after its message: how to go on from the newest snapshot,
  // if there is one and anything left to do.
  std::string WayOn() const {
    if (status_.started == 0 || left_results_ || resume_command_.empty()) return "";
    const std::optional<int64_t> step = NewestSnapshot(directory_.path());
    if (!step) return "";
    return fmt::format("; {} from the snapshot after {} steps",
                       GoesOnText(resume_command_, ranks_.size()), *step);
  }

  // Writes the run's final state, if it can be written.
  void EndStatus(RunStatus::State state, const std::string& reason) {
    if (status_.started == 0) return;
    status_.state = state;
    status_.reason = reason;
    status_.ended = std::time(nullptr);
    if (reports_) reports_->SetStatus(status_);
    try {
      directory_.Write("run.json", ToJson(status_));
    } catch (const UserError&) {
    }
  }

 private:
  std::unique_ptr<Activity> UnderWay(const std::string& what, const std::string& stage) const {
    return ranks_.first() ? std::make_unique<Activity>(what, stage) : nullptr;
  }
  bool Continues() const { return resumed_ != nullptr && resumed_->continues; }

  // The names of classes are those of the data, which should be the ones that the weights know.
  void TakeClassNames() {
    const std::vector<std::string> names = feed_.source().class_names();
    const std::string other = data::OtherClassesText(
        resumed_ != nullptr ? resumed_->record.class_names : model_->class_names(), names);
    if (ranks_.first() && !other.empty()) PrintWarning(other);
    model_->set_class_names(names);
  }

  // Describes the run for its snapshots, and sets the step where it begins.
  void DescribeItself() {
    record_ = RecordOf(config_, *model_);
    record_.base = BaseChecksum(config_, ranks_);
    record_.sequences_per_step = feed_.draws().samples_per_step();
    if (const std::vector<int64_t> sizes = feed_.source().sizes(); !sizes.empty()) {
      record_.train_tokens = sizes.front();
      record_.source_tokens.assign(sizes.begin() + 1, sizes.end());
    }
    record_.source_checksums = feed_.source().checksums();
    if (resumed_ == nullptr) return;
    RequireContinues(resumed_->record, record_, config_, resumed_->snapshot.path());
    const std::string warning =
        DropoutWarning(resumed_->record, model_->dropout(),
                       config_.lora.rank > 0 ? config_.lora.dropout : 0, resumed_->snapshot.path());
    if (ranks_.first() && !warning.empty()) PrintWarning(warning);
    record_.evaluation = resumed_->record.evaluation;
    record_.divergence = resumed_->record.divergence;
    feed_.ContinueAt(resumed_->step, resumed_->record.sequences);
    first_step_ = steps_done_ = resumed_->step;
  }

  // Prepares evaluation on held-out sequences and by samples, if the file asks for them.
  void PrepareEvaluation() {
    if (config_.train.eval_every > 0) {
      held_out_.emplace(config_, feed_.source(), ranks_);
    }
    if (model_->text_sizes()) ends_ = TextEnds(*model_, config_.model.init_from);
    if (config_.train.sample_every == 0) return;
    if (config_.data.tokenizer.empty()) {
      throw config_.Error("train.sample_every",
                          "samples need data.tokenizer: byte, or a tokenizer's path");
    }
    try {
      tokenizer_ = TokenizerFor(*model_, config_.data.tokenizer);
    } catch (const UserError& error) {
      throw config_.Error("data.tokenizer", error.what());
    }
  }

  // Compiles for this rank. All ranks have equal programs, within the budget.
  CompiledStep CompileStep(CompileOptions options) {
    allocation_ = AllocationFrom(config_, ranks_.size());
    const auto start = Clock::now();
    options.rank = ranks_.rank();
    CompiledStep compiled = Compile(*model_, options);
    const std::string warning = RefusalWarning(config_, compiled);
    if (ranks_.first() && !warning.empty()) PrintWarning(warning);
    record_.plan = FingerprintOf(compiled);
    ranks_.RequireAgreement(compiled);
    CheckBudget(config_, compiled.plan);
    if (allocation_.planned) ranks_.RequireHostMemory(compiled);
    gpu_.emplace(config_);
    compile_seconds_ = SecondsSince(start);
    return compiled;
  }

  // What MakeSession does.
  std::string MemoryText(const memory::MemoryPlan& plan) const {
    std::string text = "taking " + FormatBytes(plan.arena_bytes);
    if (plan.host_arena_bytes > 0) {
      text += fmt::format(" and {} of the host", FormatBytes(plan.host_arena_bytes));
    }
    if (device_->kind() == runtime::DeviceKind::kCpu) return text;
    return text + ", choosing algorithms and recording the step";
  }

  void MakeSession(CompiledStep compiled) {
    session_ = std::make_unique<Session>(
        std::move(compiled), *device_,
        runtime::ExecutorOptions{
            .poison = config_.debug.poison,
            .check_arena = config_.debug.check_arena,
            // On a GPU only programs that run node by node can be timed.
            .profile = profiler_.has_value() || (config_.memory.summary == config::Summary::kFull &&
                                                 device_->kind() == runtime::DeviceKind::kCpu),
            .check_finite = config_.debug.find_nan,
            .launch =
                config_.debug.node_by_node ? runtime::Launch::kAwaited : runtime::Launch::kRecorded,
            .communicators = ranks_.communicators()},
        allocation_, ranks_.groups());
    if (allocation_.planned) StartUp();
    RequireAll(config_, feed_.source(), session_->slots());
  }

  void StartWatch() {
    ranks_.Watch(config_.parallel.timeout,
                 [this] { return fmt::format("in step {}", step_under_way_.load()); });
  }

  // All ranks plan again when one of them must.
  void StartUp() {
    std::optional<ProcessBeyondBudget> problem;
    try {
      gpu_line_ = gpu_->StartUp(session_->compiled().plan, session_->memory().process_parts());
    } catch (const ProcessBeyondBudget& found) {
      problem = found;
    }
    if (!ranks_.Any(problem.has_value())) return;
    throw problem ? *problem : ProcessBeyondBudget("another rank's process is beyond the budget");
  }

  static bool Due(int64_t every, int64_t done, bool last) {
    return every > 0 && (last || done % every == 0);
  }

  void Announce(const CompiledStep& compiled, const memory::DeviceRates& rates) const {
    data::Reading reading{.samples_per_step = feed_.draws().samples_per_step(),
                          .samples = feed_.draws().FirstOfStep(config_.train.steps),
                          .eval_every = config_.train.eval_every};
    if (held_out_) reading.held_out_targets = held_out_->targets();
    Announced run{compiled, feed_.source().Describe(reading), compile_seconds_};
    run.gpu = gpu_line_;
    if (compiled.plan.host_arena_bytes > 0 && rates.copies_overlap()) run.link = LinkText(rates);
    if (resumed_ != nullptr) {
      run.resumed =
          fmt::format("goes on after {} steps, from {}", resumed_->step, resumed_->snapshot.path());
    }
    if (!allocation_.planned) {
      run.reserved_bytes = session_->memory().stats(graph::Place::kDevice).reserved;
    }
    PrintProgress(Announcement(run));
  }

  // Returns false when the run went back to an earlier step.
  bool RanToItsEnd() {
    try {
      Steps();
      return true;
    } catch (const Diverged& diverged) {
      RollBack(diverged);
      return false;
    }
  }

  void Steps() {
    const int64_t steps = config_.train.StepsToMake();
    // A signal may have arrived between a step and its evaluation.
    const bool evaluated = record_.evaluation.last >= steps_done_;
    if (!evaluated && Due(config_.train.eval_every, steps_done_, steps_done_ >= steps)) {
      if (Evaluate(steps_done_) && config_.save.best) Save(steps_done_);
    }
    if (GainsNoMore(config_, record_.evaluation)) stopped_ = true;
    while (steps_done_ < steps && !stopped_) {
      Step(steps_done_);
      const int64_t done = ++steps_done_;
      const bool last = done == steps;
      if (!last && StopAsked()) {
        EndBySignal();
        return;
      }
      const bool best = Due(config_.train.eval_every, done, last) && Evaluate(done);
      if (Due(config_.train.sample_every, done, last || stopped_)) Sample();
      const bool exit = config_.save.on_exit && config_.save.every > 0 && (last || stopped_);
      if (Due(config_.save.every, done, exit) || (config_.save.best && best)) Save(done);
      saver_->GoOn(done - log_->under_way());
    }
    FinishSaving();
  }

  // True if any rank was asked: a signal may reach only some ranks, or some later.
  bool StopAsked() {
    if (!signals_) return false;
    return ranks_.size() == 1 ? signals_->Asked() : ranks_.Any(signals_->Asked());
  }

  void EndBySignal() {
    progress_->Line(fmt::format("{}: stopping after {} steps; once more ends the run at once",
                                signals_->Name(), steps_done_));
    stopped_ = stopped_by_signal_ = true;
    Save(steps_done_);
    FinishSaving();
    if (!saver_->complete(steps_done_)) {
      throw UserError("stopped by a signal, and without the snapshot to go on from",
                      ExitCode::kInternal);
    }
  }

  void Save(int64_t done) {
    if (saver_->begun(done)) return;
    if (!config_.save.async) Drain();
    RunRecord record = record_;
    record.divergence = divergence_->state();
    record.sequences = feed_.draws().FirstOfStep(done);
    saver_->Begin(done, record);
  }

  void FinishSaving() {
    Drain();
    saver_->Finish();
  }

  // Debugging options await every op, so that a step's time is its own only if the host also waits
  // for the step's end.
  int64_t StepsAhead() const {
    const config::DebugConfig& debug = config_.debug;
    const bool awaited = debug.node_by_node || debug.check_arena || debug.find_nan;
    return awaited ? 0 : device_->steps_ahead();
  }

  // Hands the step to the device. Its row is written once the device has finished it, which on a
  // GPU is while the next step runs.
  void Step(int64_t step) {
    log_->Begin();
    step_under_way_ = step;
    const CompiledStep& compiled = session_->compiled();
    const std::span<const ObjectiveStep> told = feed_.Objectives(step, compiled, *divergence_);
    if (told.empty()) return PassOver(step);
    session_->memory().BeforeStep(step);  // its time is part of the step's
    session_->BeginStep(told, static_cast<uint64_t>(config_.train.seed));
    for (int64_t run = 0; run < compiled.step.runs(); ++run) {
      feed_.Fill(step, compiled.step.At(run), *session_);
      const bool profiled = profiler_ && profiler_->Covers(step);
      if (profiled) profiler_->Before(run);
      session_->Run(step, run);
      ranks_.Progress();
      if (profiled) profiler_->After(step, run);
    }
    session_->EndStep();
    const double data_seconds = feed_.TakeSeconds(*session_);
    if (profiler_ && profiler_->Covers(step)) profiler_->AddData(data_seconds);
    if (const std::optional<std::string> warning = feed_.HeldBack()) progress_->Warn(*warning);
    if (const std::optional<std::string> warning = feed_.Unread()) progress_->Warn(*warning);
    ++steps_run_;
    log_->Handed(step, told, data_seconds, feed_.CountTokens(step));
    while (log_->under_way() > StepsAhead()) Report();
    EndProfile(step);
  }

  // Nothing of the step is handed to the device: no weight, no state and no metric changes.
  void PassOver(int64_t step) {
    Drain();
    log_->HasNoTargets(step);
    saver_->Learn(step + 1, divergence_->state());
    EndProfile(step);
  }

  void EndProfile(int64_t step) {
    if (!profiler_ || !profiler_->LastIs(step)) return;
    progress_->Line(profiler_->Finish(session_->compiled(), directory_));
  }

  // Waits for the oldest step under way.
  void Report() {
    const auto [step, seconds, verdict] = log_->Take();
    ranks_.Progress();
    if (first_of_process_) SayStart();
    saver_->StepTook(step, seconds);
    if (verdict.kind == Verdict::kGood || verdict.kind == Verdict::kSkipped) {
      saver_->Learn(step + 1, divergence_->state());
      return;
    }
    log_->Drop();
    EndSaving(step);
    if (verdict.kind == Verdict::kRollBack) throw Diverged{step, verdict.text};
    throw UserError(verdict.text, ExitCode::kInternal);
  }

  void SayStart() {
    first_of_process_.reset();
    EndStart();
    progress_->Line(StartText());
  }

  // A step has failed, on all ranks alike. Gives up a snapshot of the state after it; finishes an
  // earlier one.
  void EndSaving(int64_t failed) {
    if (saver_->begun(failed + 1)) {
      saver_->GiveUp();
    } else {
      saver_->Finish();
    }
  }

  // Loads the newest good snapshot, and continues with the data after the step that diverged: the
  // data read before is not read again.
  void RollBack(const Diverged& diverged) {
    ranks_.StopWatching();  // reading may take long
    auto path = FindGoodSnapshot(config_, divergence_->good(), diverged.step, ranks_);
    if (!path && resumed_ != nullptr && !resumed_->continues) path = resumed_->snapshot.path();
    if (!path) {
      throw UserError(
          fmt::format("{}; there is no snapshot yet to go back to: a smaller save.every "
                      "would have made one; stopped",
                      diverged.text),
          ExitCode::kInternal);
    }
    const Resumed back(*path, config_.run.dir);
    ReadSnapshot(back.snapshot, *model_, ranks_, *session_);
    feed_.ContinueAt(back.step, feed_.draws().FirstOfStep(diverged.step + 1));
    record_.evaluation = back.record.evaluation;
    divergence_->GoBack(back.step, back.record.divergence);
    saver_->GoBackTo(back.step);
    steps_done_ = back.step;
    stopped_ = stopped_by_signal_ = false;
    log_->GoBack(back.step, record_.evaluation,
                 fmt::format("{}; back to the snapshot after {} steps and on with other data, the "
                             "learning rate now times {:g} (rollback {} of {})",
                             diverged.text, back.step, divergence_->lr_factor(),
                             divergence_->state().rollbacks, config_.divergence.max_rollbacks));
    StartWatch();
  }

  // Waits for all steps under way.
  void Drain() {
    while (log_->under_way() > 0) Report();
    log_->Interrupt();
  }

  // The same when the run ends by an error, which another error must not hide.
  void ReportWhatRan() {
    try {
      log_->TakeWhatRan();
      if (reports_) reports_->End("ended by an error");
    } catch (const std::exception&) {
    }
  }

  // Returns whether this evaluation is the best so far.
  bool Evaluate(int64_t done) {
    if (!held_out_) return false;
    const Stage stage("evaluation");
    Drain();
    EvaluationState& state = record_.evaluation;
    const HeldOut::Evaluation evaluation =
        held_out_->Evaluate(*session_, monitor_, done, state, [this] { ranks_.Progress(); });
    log_->Record(EvaluationRow(done, session_->metrics(), evaluation.metrics));
    if (reports_) {
      reports_->ShowMistakes(done, evaluation.mistakes);
      reports_->ShowSlices(done, evaluation.slices);
      reports_->ShowImages(done, evaluation.samples);
    }
    progress_->Line(evaluation.text);
    if (GainsNoMore(config_, state)) {
      progress_->Line(
          fmt::format("stopped early: {} evaluations without improvement", state.without_gain));
      stopped_ = true;
    }
    return evaluation.best;
  }

  void Sample() {
    Drain();
    GenerateOptions options = GenerateFrom(config_.sample);
    options.ends = ends_;
    const std::vector<std::string> texts = Generate(*session_, *tokenizer_, options).texts;
    for (size_t i = 0; i < texts.size(); ++i) {
      progress_->Line(fmt::format("--- sample {} of {}\n{}", i + 1, texts.size(), texts[i]));
      log_->RecordSample(
          SampleRow(steps_done_, static_cast<int64_t>(i) + 1, config_.sample.prompt, texts[i]));
    }
    progress_->Line("---");
    ranks_.Progress();
  }

  const config::RunConfig& config_;
  Ranks& ranks_;
  RunDirectory& directory_;
  std::string resume_command_;
  std::string chosen_;            // by the budget solver
  double predicted_seconds_ = 0;  // of a step
  std::string measured_rates_;    // by which its plan was chosen; empty: by none measured here
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<Activity> under_way_;  // of the start
  StepFeed feed_;
  std::optional<HeldOut> held_out_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  std::vector<int32_t> ends_;  // tokens that end texts of the model, besides the tokenizer's own
  runtime::Device* device_ = nullptr;
  std::optional<RunReports> reports_;  // on the first rank
  memory::Allocation allocation_;
  std::unique_ptr<Session> session_;
  Monitor monitor_;
  std::optional<GpuAccount> gpu_;
  std::string gpu_line_;  // from start-up
  std::optional<RunProfiler> profiler_;
  Progress* progress_ = nullptr;
  double compile_seconds_ = 0;
  std::optional<Stage> first_of_process_;
  int64_t first_step_ = 0;  // of this process
  int64_t steps_done_ = 0;
  int64_t steps_run_ = 0;  // by this process
  std::atomic<int64_t> step_under_way_ = 0;
  const Resumed* resumed_;
  std::vector<std::string> metrics_, samples_;  // rows of an earlier part that stay
  RunRecord record_;
  RunStatus status_;
  std::optional<Divergence> divergence_;
  std::optional<StepLog> log_;
  std::optional<StopSignals> signals_;
  bool stopped_ = false;
  bool stopped_by_signal_ = false;
  bool left_results_ = false;
  std::optional<Saver> saver_;  // last: its work uses the other members
};

}  // namespace

ExitCode Train(const config::Loaded& loaded, runtime::World& world, const TrainOptions& options) {
  std::optional<Stage> checks("checks");
  config::RunConfig config = loaded.config;
  world.Watch(config.parallel.timeout, [] { return "before the first step"; });
  RequireSame(
      world,
      fmt::format("{} {}\n{}\n{}", Version(), Commit(), options.resume, loaded.resolved_yaml),
      "program and configuration");
  CheckMesh(config, world.size());
  std::unique_ptr<models::Model> model = ModelFrom(config);
  const bool first = world.rank() == 0;
  if (first) MlflowFolder(config);  // refuses a server
  RunDirectory directory(config, first);
  if (world.size() > 1) RequireSharedFolder(directory.path(), world);
  std::optional<Resumed> resumed;
  if (!options.resume.empty()) {
    const auto path = FindSnapshot(options.resume, config, world);
    if (path) resumed.emplace(*path, config.run.dir);
  }
  if (!resumed || !resumed->continues) directory.RequireReplaceable(config);
  const Resumed* from = resumed ? &*resumed : nullptr;
  config::Loaded kept_run = loaded;
  if (resumed && KeepPacking(kept_run.config, resumed->record)) {
    // Windows and packed rows make different epochs.
    CountEpochs(kept_run, world.size());
    kept_run.resolved_yaml = config::ToYaml(kept_run.config);
    config = kept_run.config;
    CheckMesh(config, world.size());
    model = ModelFrom(config);
    if (first) PrintProgress("data.packing: concatenate, as the run began\n");
  }
  const config::RunConfig open = config;
  if (resumed) {
    const std::string kept = KeepChoices(config, resumed->record.config);
    if (!kept.empty() && first) {
      PrintProgress(fmt::format("{}, as the run chose before its snapshot\n", kept));
    }
  }
  DeviceStart device(config);
  if (first) PrintProgress(Header(config, *model));
  checks.reset();
  SettledRun settled = [&] {
    const Stage stage("planning");
    MeasureLink(config, world);
    return SettleOnFirst(config, *model, world);
  }();
  Ranks ranks(world, MeshFrom(settled.config));
  std::unique_ptr<Run> run;
  try {
    run = std::make_unique<Run>(settled, device, ranks, directory, options, from);
  } catch (const ProcessBeyondBudget& problem) {
    // The solver can make room, now that the needed memory is known.
    config::RunConfig laid_out = config;
    KeepLayout(laid_out, settled.config);
    if (!LeavesChoice(laid_out)) throw;
    PrintWarning(fmt::format("{}; planning again", problem.what()));
    settled = SettleOnFirst(laid_out, *model, world);
    run = std::make_unique<Run>(settled, device, ranks, directory, options, from);
  }
  try {
    run->Begin(kept_run.resolved_yaml, ChoicesJson(open, settled.config));
    return run->Loop();
  } catch (const std::exception& error) {
    run->EndStatus(RunStatus::State::kFailed, error.what());
    const std::string way_on = run->WayOn();
    if (dynamic_cast<const InternalError*>(&error) != nullptr)
      throw InternalError(error.what() + way_on);
    const auto* const mistake = dynamic_cast<const UserError*>(&error);
    if (mistake == nullptr) throw;
    // Exit code 2 means that nothing was started.
    throw UserError(error.what() + way_on, mistake->code() == ExitCode::kUserMistake
                                               ? ExitCode::kInternal
                                               : mistake->code());
  }
}

}  // namespace plimsoll::trainer
