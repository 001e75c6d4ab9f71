#include "trainer/step_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/message.h"
#include "runtime/process_memory.h"
#include "trainer/record/rank_spread.h"
#include "trainer/record/run_metrics.h"
#include "trainer/record/run_summary.h"
#include "trainer/record/step_record.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {

StepLog::StepLog(const Parts& parts)
    : parts_(parts),
      metrics_(EvaluatedMetrics(parts.session.metrics())),
      energy_(runtime::FindEnergyCounter(parts.session.device().kind())),
      windows_(energy_.counter.get()) {}

void StepLog::Begin() {
  if (!under_way_.empty()) return;
  start_ = Clock::now();
  if (steps_ >= kWarmupSteps) windows_.Begin(start_);
}

void StepLog::Handed(int64_t step, std::span<const ObjectiveStep> objectives, double data_seconds,
                     std::optional<int64_t> tokens) {
  under_way_.push_back({step, {objectives.begin(), objectives.end()}, data_seconds, tokens});
}

StepLog::Done StepLog::Take() { return Take(/*alone=*/false); }

void StepLog::TakeWhatRan() {
  while (!under_way_.empty()) Take(/*alone=*/true);
}

void StepLog::Drop() {
  for (; !under_way_.empty(); under_way_.pop_front()) parts_.session.TakeMetrics();
}

StepLog::Done StepLog::Take(bool alone) {
  const auto& [config, model, session, ranks, directory, reports, gpu, progress, divergence] =
      parts_;
  const UnderWay step = std::move(under_way_.front());
  under_way_.pop_front();
  const std::span<const StepMetrics> metrics = session.TakeMetrics();
  const auto now = Clock::now();
  // A host that enqueues the next step before it reports this step notices the end of this step
  // late, so the time measured by the device is used.
  const std::optional<double> by_device = follows_ ? session.seconds_of_taken() : std::nullopt;
  const double seconds = by_device.value_or(std::chrono::duration<double>(now - start_).count());
  start_ = now;
  follows_ = !under_way_.empty();

  StepReport report = ReportOf(step, metrics);
  report.step_seconds = seconds;
  report.data_seconds = step.data_seconds;
  const double tokens =
      step.tokens ? static_cast<double>(*step.tokens) : TokensPerStep(session.compiled().options);
  report.tokens_per_second = tokens / seconds;
  report.unit = UnitOfWork(session.compiled().options);
  report.mfu = Mfu(report.tokens_per_second);
  report.arena_bytes = session.compiled().plan.arena_bytes;
  report.planned = session.memory().planned();
  report.allocator = session.memory().stats(graph::Place::kDevice);
  const int64_t every = config.train.log_every;
  if ((every > 0 && (step.number + 1) % every == 0) || step.number < 4) {
    gpu_bytes_ = gpu.bytes();
    const std::vector<std::string> grown = gpu.Watch(step.number);
    if (report.planned) {
      for (const std::string& growth : grown) progress.Warn(growth);
    }
  }
  report.resident_bytes = runtime::MeasureProcessMemory().resident_bytes;
  ++steps_;
  windows_.StepDone(now, seconds, static_cast<int64_t>(tokens));
  // The device has already begun the next step.
  if (steps_ >= kWarmupSteps && !under_way_.empty()) windows_.Begin(now);
  std::optional<Energy> energy = windows_.ended();
  if (ranks.size() > 1) {
    // All ranks of a host share its processors' energy counters, so only one rank counts them. GPUs
    // are not shared, so each rank counts its own.
    const bool counted = session.device().kind() != runtime::DeviceKind::kCpu;
    if (!counted && !ranks.first_on_host()) energy = Energy{};
    if (progress.Logs(step.number) && !alone) {
      report.ranks = SpreadOver(ranks, seconds, gpu_bytes_.value_or(report.resident_bytes), energy);
      report.energy = report.ranks->energy;
    }
  } else {
    report.energy = energy;
  }
  if (report.energy) windows_.Forget();
  Done done{.step = step.number, .seconds = seconds};
  if (!alone) {
    for (size_t i = 0; i < report.objectives.size(); ++i) {
      const float limit = divergence.LimitOf(step.number, i);
      if (limit < kNoLossLimit) report.objectives[i].loss_limit = limit;
    }
    done.verdict = divergence.Judge(step.number, metrics);
    report.diverged = done.verdict.text;
  }
  Record(MetricsRow(report, gpu_bytes_));
  progress.Step(report);
  if (done.verdict.kind == Verdict::kSkipped) progress.Line(done.verdict.text);
  return done;
}

void StepLog::HasNoTargets(int64_t step) {
  parts_.divergence.PassOver(step);
  Record(NoTargetsRow(step));
  if (parts_.divergence.counts().without_targets > 1) return;  // the closing lines count the others
  parts_.progress.Line(
      fmt::format("step {}: none of its targets counts, so that it makes no update", step));
}

// The report of a step, with the device's results.
StepReport StepLog::ReportOf(const UnderWay& step, std::span<const StepMetrics> metrics) const {
  StepReport report;
  report.step = step.number;
  report.objectives.clear();
  for (size_t i = 0; i < metrics.size(); ++i) {
    report.objectives.push_back({.name = parts_.session.compiled().objectives[i].name,
                                 .loss = metrics[i].loss,
                                 .lr = step.objectives[i].lr,
                                 .grad_norm = metrics[i].grad_norm,
                                 .loss_scale = metrics[i].loss_scale,
                                 .skipped = metrics[i].skipped,
                                 .codes = metrics[i].codes});
  }
  for (const EvaluatedMetric& metric : metrics_) {
    if (!metric.info.declared || !metric.info.scalar() || !metric.info.in_steps) continue;
    report.metrics.emplace_back(metric.name, metric.Value(metrics));
  }
  return report;
}

// The model FLOPs utilisation: model FLOPs, without recomputation, as a fraction of the peak of all
// ranks. nullopt if the peak is unknown.
std::optional<double> StepLog::Mfu(double tokens_per_second) const {
  const CompiledStep& compiled = parts_.session.compiled();
  const double peak = PeakFlops(compiled, parts_.session.device());
  if (peak == 0) return std::nullopt;
  return ModelFlopsPerToken(compiled) * tokens_per_second /
         (peak * static_cast<double>(parts_.ranks.size()));
}

void StepLog::Record(const nlohmann::ordered_json& row) {
  Keep([&] { parts_.directory.AppendMetrics(row.dump()); });
  if (parts_.reports != nullptr) parts_.reports->Add(row);
}

void StepLog::RecordSample(const nlohmann::ordered_json& row) {
  Keep([&] {
    parts_.directory.AppendSample(row.dump(-1, ' ', /*ensure_ascii=*/false,
                                           nlohmann::ordered_json::error_handler_t::replace));
  });
  if (parts_.reports != nullptr) parts_.reports->AddSample(row);
}

void StepLog::Keep(const std::function<void()>& append) const {
  try {
    append();
  } catch (const UserError& problem) {
    if (parts_.config.save.on_error == config::OnSaveError::kStop) throw;
    parts_.progress.Warn(fmt::format("{}; this row is lost", problem.what()));
  }
}

void StepLog::GoBack(int64_t step, const EvaluationState& evaluation, const std::string& text) {
  const int64_t number = parts_.divergence.state().rollbacks;  // includes this rollback
  if (parts_.ranks.first()) {
    const std::vector<std::string> lines =
        LinesUntil(parts_.directory.File("metrics.jsonl"), step, evaluation.last, number - 1);
    parts_.directory.Continue(lines, SamplesUntil(parts_.directory.File("samples.jsonl"), step));
    if (parts_.reports != nullptr) parts_.reports->GoBack(step, lines);
  }
  Record(RollbackRow(step, number, text));
  parts_.progress.Restart(step);
  parts_.progress.Line(text);
}

}  // namespace plimsoll::trainer
