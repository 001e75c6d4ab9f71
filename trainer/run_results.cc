#include "trainer/run_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/amounts.h"
#include "base/error.h"
#include "base/message.h"
#include "data/images/preprocessor_config.h"
#include "memory/report.h"
#include "runtime/caching_allocator/caching_allocation.h"
#include "snapshots/snapshot.h"
#include "trainer/closing_summary.h"
#include "trainer/record/run_metrics.h"
#include "trainer/record/run_summary.h"
#include "trainer/resolve/gpu_profile.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/save_and_resume/chat_template_file.h"
#include "trainer/save_and_resume/read_snapshot.h"
#include "trainer/save_and_resume/resume.h"
#include "trainer/save_and_resume/text_ends.h"
#include "trainer/save_and_resume/tokenizer_files.h"
#include "trainer/step/adapter.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {
namespace {

std::vector<std::vector<double>> NodeSeconds(Session& session, int64_t steps) {
  const StepPrograms& step = session.compiled().step;
  std::vector<std::vector<double>> seconds;
  bool measured = false;
  for (int p = 0; p < static_cast<int>(session.compiled().programs.size()); ++p) {
    std::vector<double>& of_program = seconds.emplace_back();
    for (int64_t nanoseconds : session.executor(p).node_nanoseconds()) {
      const bool counts = step.Runs(p) && steps > 0;
      of_program.push_back(
          counts ? 1e-9 * static_cast<double>(nanoseconds) / static_cast<double>(steps) : 0);
      measured = measured || of_program.back() > 0;
    }
  }
  if (!measured) seconds.clear();
  return seconds;
}

// Formats the memory summary. `steps` is the number of steps that the session has run. With
// `by_time` the summary includes times, which require the executors' option `profile`. Evaluation
// and generation have no times, because they are not part of a step.
std::string MemorySummary(Session& session, int64_t steps, bool by_time) {
  const CompiledStep& compiled = session.compiled();
  const memory::PlannedPrograms planned = compiled.planned();
  memory::MemoryFacts facts{.programs = planned.programs, .plan = compiled.plan};
  facts.node_seconds = NodeSeconds(session, steps);
  facts.by_time = by_time;
  facts.used = !session.memory().planned();
  if (facts.used) {
    facts.caching = {session.memory().stats(graph::Place::kDevice),
                     session.memory().stats(graph::Place::kHost)};
  } else {
    const runtime::ReplayResult replay = runtime::Replay(planned);
    facts.caching = {replay.device, replay.host};
  }
  return memory::RunSummary(facts);
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The mean number of tokens in a step over an epoch, on all ranks, without padding. nullopt if
// there is no padding to exclude.
std::optional<double> MeanTokens(const EndedRun& run) {
  constexpr int64_t kMany = 100'000;  // samples to count for a mixture, which has no epochs
  const int64_t samples = run.source.epoch_samples().value_or(kMany);
  const std::optional<int64_t> tokens = run.source.CountTokens(0, samples);
  if (!tokens) return std::nullopt;
  const CompileOptions& options = run.session.compiled().options;
  return static_cast<double>(*tokens) / static_cast<double>(samples * options.sequence) *
         TokensPerStep(options);
}

// `metrics` must outlive the result.
RunResult ResultOf(const EndedRun& run, const RunMetrics& metrics) {
  RunResult result{
      .session = run.session, .model = run.model, .config = run.config, .metrics = metrics};
  result.ranks = run.ranks.size();
  result.tokens_per_step = MeanTokens(run);
  if (const EvaluationState& state = run.evaluation;
      state.best_step >= 0 && state.monitor != "loss") {
    result.monitored = {state.monitor, state.best, state.best_step};
  }
  result.chosen = run.chosen;
  if (const auto& budget = run.config.memory.budget;
      budget &&
      budget->base != config::MemorySize::Base::kFree) {  // free memory has changed since then
    result.budget_bytes = BytesOf(*budget, run.config, "memory.budget");
    result.arena_budget_bytes = ArenaBudget(run.config, run.session.compiled().plan);
  }
  result.predicted_step_seconds = run.predicted_seconds;
  if (run.log.gpu_bytes()) {
    const CompiledStep& compiled = run.session.compiled();
    result.predicted_process_bytes =
        ProfileFrom(run.config)
            .ProcessBytes(run.session.memory().planned()
                              ? compiled.plan.arena_bytes
                              : runtime::Replay(compiled.planned()).device.peak_reserved);
    result.process_bytes = std::max(run.gpu.highest_bytes(), metrics.most_rank_bytes.value_or(0));
  }
  if (run.config.debug.check_arena) result.used_bytes = run.session.used_bytes();
  const runtime::FoundEnergyCounter& energy = run.log.energy();
  if (energy.counter) result.energy_counts = energy.counter->Counts();
  result.energy_problem = energy.problem;
  return result;
}

// Loads the weights of the best evaluation, for the run to save. Returns the number of steps before
// that evaluation, or nullopt if it was the last evaluation.
std::optional<int64_t> TakeBestWeights(const EndedRun& run) {
  const EvaluationState& evaluation = run.evaluation;
  if (evaluation.best_step < 0 || evaluation.best_step == run.steps_done) return std::nullopt;
  const auto path = FindSnapshotAfter(run.config, evaluation.best_step, run.ranks);
  if (path) {
    ReadSnapshot(snapshots::Snapshot(*path), run.model, run.ranks, run.session);
    run.progress.Line(fmt::format("weights after {} taken, of the best held-out {} {:.4f}",
                                  Counted(evaluation.best_step, "step"), evaluation.monitor,
                                  evaluation.best));
    return evaluation.best_step;
  }
  if (run.ranks.first()) {
    PrintWarning(fmt::format(
        "there is no snapshot of the best evaluation, after {}: the weights are the last "
        "ones",
        Counted(evaluation.best_step, "step")));
  }
  return std::nullopt;
}

// Saves the files that define a model's inputs next to its weights. Next to an adapter saves only
// the tokenizer's files, as PEFT's trainers do. A failure causes only a warning, because the
// weights, already saved, are useful without these files.
void SaveInputFiles(const EndedRun& run, const std::string& folder) {
  const bool adapts = run.config.lora.asked();
  try {
    const data::ImagePreparation* const pictures =
        adapts ? nullptr : run.source.image_preparation();
    data::WritePreparation(pictures == nullptr ? "" : data::PreparationText(*pictures), folder);
    const CopiedTokenizer tokenizer =
        CopiedTokenizerFor(run.model, run.config.data.tokenizer, run.config.data,
                           ChatTemplateText(run.config.data.chat_template));
    WriteTokenizerFiles(tokenizer, folder);
    if (adapts) return;
    WriteGenerationConfig(
        GenerationConfigText(run.model, run.config.model.init_from, tokenizer.end), folder);
  } catch (const UserError& error) {
    PrintWarning(fmt::format("{}: nothing next to its weights says how inputs are made: {}", folder,
                             error.what()));
  }
}

void SaveModel(const EndedRun& run, const std::string& folder) {
  const bool adapts = run.config.lora.asked();
  if (adapts) {
    SaveAdapter(run.session, run.model, {run.config.model.init_from, run.base}, folder,
                run.ranks.first());
  } else {
    run.session.SaveWeights(run.model, folder);
  }
  if (run.ranks.first()) {
    SaveInputFiles(run, folder);
    run.progress.Line(fmt::format("{} written to {}", adapts ? "adapter" : "model", folder));
  }
}

void SaveAverages(const EndedRun& run) {
  run.session.ExchangeAverages();
  SaveModel(run, run.directory.averages());
  run.session.ExchangeAverages();
}

void CheckArena(const EndedRun& run) {
  run.progress.Line(fmt::format("arena: {} bytes planned, {} bytes used",
                                run.session.compiled().plan.arena_bytes, run.session.used_bytes()));
}

}  // namespace

void LeaveResults(const EndedRun& run) {
  RunMetrics metrics;
  if (run.ranks.first()) metrics = ReadMetrics(run.directory.File("metrics.jsonl"));
  const RunResult result = ResultOf(run, metrics);
  if (run.ranks.first()) run.directory.Write("summary.json", RunSummary(result).dump(1) + "\n");
  Closing closing;
  if (run.config.save.model) {
    if (run.config.save.best) closing.weights_after = TakeBestWeights(run);
    SaveModel(run, run.directory.model());
    closing.model = run.directory.model();
    if (run.session.HasAverages()) {
      SaveAverages(run);
      closing.averages = run.directory.averages();
    }
  }
  if (run.config.debug.check_arena) CheckArena(run);
  closing.seconds = SecondsSince(run.start);
  closing.rates = run.rates;
  closing.data_advice = run.data_advice;
  closing.updates = UpdatesText(run.counts);
  if (run.config.log.report) closing.report = run.directory.File("report.html");
  if (run.ranks.first() && run.config.memory.summary != config::Summary::kNone) {
    run.progress.Line(ClosingSummary(result, closing));
  }
  if (run.config.memory.summary == config::Summary::kFull) {
    run.progress.Line(
        MemorySummary(run.session, run.steps_run,
                      run.config.memory.summary_order == config::SummaryOrder::kTime));
  }
}

}  // namespace plimsoll::trainer
