#include "trainer/training_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/amounts.h"
#include "base/columns.h"
#include "base/message.h"
#include "runtime/process_memory.h"
#include "snapshots/snapshot.h"
#include "trainer/announcement.h"
#include "trainer/closing_summary.h"
#include "trainer/language/generate.h"
#include "trainer/plan/memory_timeline.h"
#include "trainer/plan/plan_json.h"
#include "trainer/record/run_facts.h"
#include "trainer/record/run_metrics.h"
#include "trainer/record/step_record.h"
#include "trainer/resolve/link_rates.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/run_results.h"
#include "trainer/save_and_resume/read_snapshot.h"
#include "trainer/save_and_resume/reference_log_probs.h"
#include "trainer/save_and_resume/way_on.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

bool Due(int64_t every, int64_t done, bool last) {
  return every > 0 && (last || done % every == 0);
}

}  // namespace

TrainingLoop::TrainingLoop(PreparedRun& run, RunDirectory& directory, std::string resume_command)
    : run_(run),
      directory_(directory),
      resume_command_(std::move(resume_command)),
      steps_done_(run.first_step) {}

TrainingLoop::~TrainingLoop() { run_.ranks.StopWatching(); }

void TrainingLoop::Begin(const std::string& resolved_yaml, const ordered_json& choices) {
  const Stage stage("run directory");
  run_.ranks.Barrier();
  if (run_.Continues()) {
    directory_.Continue(run_.metrics, run_.samples);
  } else {
    directory_.Begin();
  }
  if (!run_.ranks.first()) {
    SendOutputTo(directory_.File(fmt::format("rank.{}.log", run_.ranks.rank())), run_.Continues());
    PrintProgress(Header(run_.config, *run_.model));
  }
  directory_.Write("config.yaml", resolved_yaml);
  if (run_.references && !run_.Continues()) {
    directory_.Write(kReferenceFile, run_.references->Content());
  }
  run_.references.reset();  // the data's rows contain them now
  status_ = StartedNow(run_.config, resume_command_);
  directory_.Write("run.json", ToJson(status_));
  const CompiledStep& step = run_.session->compiled();
  // With no programs, takes no measurements.
  const memory::CostModel known = CostModelFor(run_.config, {});
  predicted_seconds_ = run_.ranks.PredictSeconds(step, known);
  if (!run_.resolved.chosen.empty() && known.measured() && run_.config.memory.calibration.empty()) {
    measured_rates_ = RatesText(run_.config, known);
  }
  const ordered_json plan =
      PlanObject(run_.config, *run_.model, step, known, predicted_seconds_, choices);
  directory_.Write("plan.json", plan.dump(1) + "\n");
  const ordered_json timeline = MemoryTimelineJson(step);
  directory_.Write("memory_timeline.json", timeline.dump() + "\n");
  if (run_.ranks.first()) {
    reports_.emplace(
        run_.config, directory_,
        RunFactsOf(run_.config, resolved_yaml, *run_.model, *run_.device, run_.ranks.size(), step,
                   timeline, run_.feed.source().class_names()),
        run_.first_step, run_.metrics, ModelColumns(step));
  }
  if (!run_.resolved.chosen.empty()) {
    PrintProgress(
        Wrapped("chosen within memory.budget: " + run_.resolved.chosen, kLineColumns, "  ") + "\n");
  }
  Announce(step, known.rates());
}

ExitCode TrainingLoop::Run() {
  const Clock::time_point start = Clock::now();
  Progress progress(run_.config.train.StepsToMake(), run_.first_step, run_.config.train.log_every,
                    run_.ranks.size() == 1, run_.config.train.steps_per_epoch);
  progress_ = &progress;
  divergence_.emplace(run_.config, JudgedObjectives(run_.session->compiled()), run_.first_step,
                      run_.record.divergence);
  log_.emplace(StepLog::Parts{run_.config, *run_.model, *run_.session, run_.ranks, directory_,
                              reports_ ? &*reports_ : nullptr, *run_.gpu, progress, *divergence_});
  if (run_.config.save.on_exit) signals_.emplace(run_.config.save.signal);
  saver_.emplace(run_.config, *run_.session, run_.ranks, directory_,
                 Saver::Says{.progressed = [this] { run_.ranks.Progress(); },
                             .line = [this](const std::string& text) { progress_->Line(text); }});
  if (run_.resumed != nullptr) saver_->GoesOnFrom(run_.resumed->step);
  StartWatch();
  first_of_process_.emplace("first step");
  try {
    while (!RanToItsEnd()) continue;
  } catch (...) {
    ReportWhatRan();
    throw;
  }
  if (reports_) {
    reports_->ShowUnread(run_.feed.source().Unread());
    reports_->End(stopped_by_signal_ ? "stopped by a signal" : stopped_ ? "stopped early" : "done");
  }
  if (const std::string rates = run_.feed.RatesText(); !rates.empty()) progress.Line(rates);
  if (const std::string unread = run_.feed.source().Unread(); !unread.empty()) {
    progress.Line("data: " + unread);
  }
  run_.ranks.StopWatching();  // the other ranks wait while the first one writes the model
  if (stopped_by_signal_) {
    EndStatus(RunStatus::State::kStopped, signal_);
    progress.Line(fmt::format("stopped by a signal; {} from here",
                              ContinuesText(resume_command_, run_.ranks.size())));
    return ExitCode::kStoppedBySignal;
  }
  LeaveResults({.config = run_.config,
                .source = run_.feed.source(),
                .model = *run_.model,
                .session = *run_.session,
                .ranks = run_.ranks,
                .directory = directory_,
                .log = *log_,
                .gpu = *run_.gpu,
                .progress = progress,
                .evaluation = run_.record.evaluation,
                .counts = divergence_->counts(),
                .base = run_.record.base,
                .chosen = run_.resolved.chosen,
                .predicted_seconds = predicted_seconds_,
                .rates = measured_rates_,
                .data_advice = run_.feed.Advice(),
                .steps_done = steps_done_,
                .steps_run = steps_run_,
                .start = start});
  progress_ = nullptr;
  left_results_ = true;
  // The first part of a run with train.stop_after may make no update.
  const bool whole = steps_done_ >= run_.config.train.steps || stopped_;
  if (const std::string problem = NoUpdateText(divergence_->counts()); whole && !problem.empty()) {
    throw UserError(problem, ExitCode::kInternal);
  }
  EndStatus(RunStatus::State::kDone, stopped_ ? "stopped early" : "");
  return ExitCode::kDone;
}

std::string TrainingLoop::WayOn() const {
  if (status_.started == 0 || left_results_ || resume_command_.empty()) return "";
  const std::optional<int64_t> step = NewestSnapshot(directory_.path());
  if (!step) return "";
  return fmt::format("; {} from the snapshot after {}",
                     ContinuesText(resume_command_, run_.ranks.size()), Counted(*step, "step"));
}

void TrainingLoop::EndStatus(RunStatus::State state, const std::string& reason) {
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

void TrainingLoop::StartWatch() {
  run_.ranks.Watch(run_.config.parallel.timeout,
                   [this] { return fmt::format("in step {}", step_under_way_.load()); });
}

void TrainingLoop::Announce(const CompiledStep& compiled, const memory::DeviceRates& rates) const {
  data::Reading reading{.samples_per_step = run_.feed.draws().samples_per_step(),
                        .samples = run_.feed.draws().FirstOfStep(run_.config.train.steps),
                        .eval_every = run_.config.train.eval_every};
  if (run_.held_out) reading.held_out_targets = run_.held_out->targets();
  Announced run{compiled, run_.feed.source().Describe(reading), run_.compile_seconds};
  run.gpu = run_.gpu_line;
  if (compiled.plan.host_arena_bytes > 0 && rates.copies_overlap()) run.link = LinkText(rates);
  if (run_.resumed != nullptr) {
    run.resumed = fmt::format("continues after {}, from {}", Counted(run_.resumed->step, "step"),
                              run_.resumed->snapshot.path());
  }
  if (!run_.allocation.planned) {
    run.reserved_bytes = run_.session->memory().stats(graph::Place::kDevice).reserved;
  }
  PrintProgress(Announcement(run));
}

// Returns false if the run went back to an earlier step.
bool TrainingLoop::RanToItsEnd() {
  try {
    Steps();
    return true;
  } catch (const Diverged& diverged) {
    RollBack(diverged);
    return false;
  }
}

void TrainingLoop::Steps() {
  const int64_t steps = run_.config.train.StepsToMake();
  // If a signal arrived between a step and its evaluation, the evaluation is still missing.
  const bool evaluated = run_.record.evaluation.last >= steps_done_;
  if (!evaluated && Due(run_.config.train.eval_every, steps_done_, steps_done_ >= steps)) {
    if (Evaluate(steps_done_) && run_.config.save.best) Save(steps_done_);
  }
  if (GainsNoMore(run_.config, run_.record.evaluation)) stopped_ = true;
  while (steps_done_ < steps && !stopped_) {
    Step(steps_done_);
    const int64_t done = ++steps_done_;
    const bool last = done == steps;
    if (!last && StopAsked()) {
      EndBySignal();
      return;
    }
    const bool best = Due(run_.config.train.eval_every, done, last) && Evaluate(done);
    if (Due(run_.config.train.sample_every, done, last || stopped_)) Sample();
    const bool exit = run_.config.save.on_exit && run_.config.save.every > 0 && (last || stopped_);
    if (Due(run_.config.save.every, done, exit) || (run_.config.save.best && best)) Save(done);
    saver_->GoOn(done - log_->under_way());
  }
  FinishSaving();
}

// Whether any rank was asked to stop. A signal may reach only some ranks, or reach ranks at
// different times.
bool TrainingLoop::StopAsked() {
  if (!signals_) return false;
  const bool several = run_.ranks.size() > 1;
  if (!(several ? run_.ranks.Any(signals_->Asked()) : signals_->Asked())) return false;
  signal_ = signals_->Name();
  if (!several) return true;
  const std::vector<std::string> names = run_.ranks.Gather(signal_);
  signal_ = *std::ranges::find_if(names, [](const std::string& name) { return !name.empty(); });
  return true;
}

void TrainingLoop::EndBySignal() {
  progress_->Line(fmt::format("{}: stopping after {}; once more ends the run at once", signal_,
                              Counted(steps_done_, "step")));
  stopped_ = stopped_by_signal_ = true;
  Save(steps_done_);
  FinishSaving();
  if (!saver_->complete(steps_done_)) {
    throw UserError("stopped by a signal, and without the snapshot to continue from",
                    ExitCode::kInternal);
  }
}

void TrainingLoop::Save(int64_t done) {
  if (saver_->begun(done)) return;
  if (!run_.config.save.async) Drain();
  RunRecord record = run_.record;
  record.divergence = divergence_->state();
  record.sequences = run_.feed.draws().FirstOfStep(done);
  saver_->Begin(done, record);
}

void TrainingLoop::FinishSaving() {
  Drain();
  saver_->Finish();
}

// Debugging options that await every op also make the host await each step's end; otherwise the
// measured step time would be wrong.
int64_t TrainingLoop::StepsAhead() const {
  const config::DebugConfig& debug = run_.config.debug;
  const bool awaited = debug.node_by_node || debug.check_arena || debug.find_nan;
  return awaited ? 0 : run_.device->steps_ahead();
}

// Enqueues the step on the device. The step's row is written once the device has finished the step;
// on a GPU the next step runs meanwhile.
void TrainingLoop::Step(int64_t step) {
  log_->Begin();
  step_under_way_ = step;
  const CompiledStep& compiled = run_.session->compiled();
  const std::span<const ObjectiveStep> told = run_.feed.Objectives(step, compiled, *divergence_);
  if (told.empty()) return PassOver(step);
  run_.session->memory().BeforeStep(step);  // counts as part of the step's time
  run_.session->BeginStep(told, static_cast<uint64_t>(run_.config.train.seed));
  for (int64_t run = 0; run < compiled.step.runs(); ++run) {
    run_.feed.Fill(step, compiled.step.At(run), *run_.session);
    const bool profiled = run_.profiler && run_.profiler->Covers(step);
    if (profiled) run_.profiler->Before(run);
    run_.session->Run(step, run);
    run_.ranks.Progress();
    if (profiled) run_.profiler->After(step, run);
  }
  run_.session->EndStep();
  const double data_seconds = run_.feed.TakeSeconds(*run_.session);
  if (run_.profiler && run_.profiler->Covers(step)) run_.profiler->AddData(data_seconds);
  if (const std::optional<std::string> warning = run_.feed.HeldBack()) progress_->Warn(*warning);
  if (const std::optional<std::string> warning = run_.feed.Unread()) progress_->Warn(*warning);
  ++steps_run_;
  log_->Handed(step, told, data_seconds, run_.feed.CountTokens(step));
  while (log_->under_way() > StepsAhead()) Report();
  EndProfile(step);
}

// Skips a step without running it: no weight, state or metric changes.
void TrainingLoop::PassOver(int64_t step) {
  Drain();
  log_->HasNoTargets(step);
  saver_->Learn(step + 1, divergence_->state());
  EndProfile(step);
}

void TrainingLoop::EndProfile(int64_t step) {
  if (!run_.profiler || !run_.profiler->LastIs(step)) return;
  progress_->Line(run_.profiler->Finish(run_.session->compiled(), directory_));
}

// Waits for the oldest step in flight, and reports it.
void TrainingLoop::Report() {
  const auto [step, seconds, verdict] = log_->Take();
  run_.ranks.Progress();
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

void TrainingLoop::SayStart() {
  first_of_process_.reset();
  EndStart();
  progress_->Line(StartText());
}

// Ends saving after a step has failed, on all ranks alike. Drops a snapshot begun after the failed
// step; finishes a snapshot begun before.
void TrainingLoop::EndSaving(int64_t failed) {
  if (saver_->begun(failed + 1)) {
    saver_->GiveUp();
  } else {
    saver_->Finish();
  }
}

// Loads the newest good snapshot, and continues with the data after the diverged step, so that no
// data is read a second time.
void TrainingLoop::RollBack(const Diverged& diverged) {
  run_.ranks.StopWatching();  // reading may take long
  auto path = FindGoodSnapshot(run_.config, divergence_->good(), diverged.step, run_.ranks);
  if (!path && run_.resumed != nullptr && !run_.resumed->continues)
    path = run_.resumed->snapshot.path();
  if (!path) {
    throw UserError(fmt::format("{}; there is no snapshot yet to go back to: a smaller save.every "
                                "would have made one; stopped",
                                diverged.text),
                    ExitCode::kInternal);
  }
  const Resumed back(*path, run_.config.run.dir);
  ReadSnapshot(back.snapshot, *run_.model, run_.ranks, *run_.session);
  run_.feed.ContinueAt(back.step, run_.feed.draws().FirstOfStep(diverged.step + 1));
  run_.record.evaluation = back.record.evaluation;
  divergence_->GoBack(back.step, back.record.divergence);
  saver_->GoBackTo(back.step);
  steps_done_ = back.step;
  stopped_ = stopped_by_signal_ = false;
  log_->GoBack(back.step, run_.record.evaluation,
               fmt::format("{}; back to the snapshot after {} and on with other data, the "
                           "learning rate now times {:g} (rollback {} of {})",
                           diverged.text, Counted(back.step, "step"), divergence_->lr_factor(),
                           divergence_->state().rollbacks, run_.config.divergence.max_rollbacks));
  StartWatch();
}

// Waits for all steps in flight.
void TrainingLoop::Drain() {
  while (log_->under_way() > 0) Report();
  log_->Interrupt();
}

// Reports the steps that ran before an error that ends the run. A second error must not hide the
// first.
void TrainingLoop::ReportWhatRan() {
  try {
    log_->TakeWhatRan();
    if (reports_) reports_->End("ended by an error");
  } catch (const std::exception&) {
  }
}

// Returns whether this evaluation is the best so far.
bool TrainingLoop::Evaluate(int64_t done) {
  if (!run_.held_out) return false;
  const Stage stage("evaluation");
  Drain();
  EvaluationState& state = run_.record.evaluation;
  const HeldOut::Evaluation evaluation = run_.held_out->Evaluate(
      *run_.session, run_.monitor, done, state, [this] { run_.ranks.Progress(); });
  log_->Record(EvaluationRow(done, run_.session->metrics(), evaluation.metrics));
  if (reports_) {
    reports_->ShowMistakes(done, evaluation.mistakes);
    reports_->ShowSlices(done, evaluation.slices);
    reports_->ShowImages(done, evaluation.samples);
  }
  progress_->Line(evaluation.text);
  if (GainsNoMore(run_.config, state)) {
    progress_->Line(fmt::format("stopped early: {} without improvement",
                                Counted(state.without_gain, "evaluation")));
    stopped_ = true;
  }
  return evaluation.best;
}

void TrainingLoop::Sample() {
  Drain();
  GenerateOptions options = GenerateFrom(run_.config.sample);
  options.ends = run_.ends;
  const std::vector<std::string> texts = Generate(*run_.session, *run_.tokenizer, options).texts;
  for (size_t i = 0; i < texts.size(); ++i) {
    progress_->Line(fmt::format("--- sample {} of {}\n{}", i + 1, texts.size(), texts[i]));
    log_->RecordSample(
        SampleRow(steps_done_, static_cast<int64_t>(i) + 1, run_.config.sample.prompt, texts[i]));
  }
  progress_->Line("---");
  run_.ranks.Progress();
}

}  // namespace plimsoll::trainer
