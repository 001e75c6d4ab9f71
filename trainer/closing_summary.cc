#include "trainer/closing_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/statistics.h"
#include "runtime/process_memory.h"
#include "trainer/record/data_time.h"
#include "trainer/resolve/calibration.h"
#include "trainer/resolve/run_device.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {
namespace {

std::string LossText(const RunResult& result) {
  const RunMetrics& metrics = result.metrics;
  if (metrics.loss.empty()) return "no step was made";
  // Steps without targets have no loss; the first steps may be such steps.
  const auto first =
      std::ranges::find_if(metrics.loss, [](double loss) { return !std::isnan(loss); });
  std::string text =
      fmt::format("{:.4f} → {:.4f} in {}", first == metrics.loss.end() ? NAN : *first,
                  metrics.loss.back(), Counted(metrics.loss.size(), "step"));
  if (const auto& best = result.monitored) {
    text +=
        fmt::format(", held-out {} {:.4g} at best, after {}", best->metric, best->best, best->step);
  } else if (const auto best = BestEvaluation(metrics)) {
    text += fmt::format(", held out {:.4f} at best, after {}", best->loss, best->step);
  }
  return text;
}

std::string TimeText(const RunResult& result, double seconds) {
  std::string text = FormatDuration(seconds);
  const std::vector<double> steps = MeasuredSteps(result.metrics, kWarmupSteps);
  if (steps.empty()) return text;
  const double ms = QuartilesOf(steps).median;
  const CompiledStep& compiled = result.session.compiled();
  text += fmt::format(", {:.4g} ms a step, {} {}s/s", ms,
                      FormatCount(TokensPerStep(result) / ms * 1e3), UnitOfWork(compiled.options));
  if (const auto energy = MeanEnergy(result.metrics)) {
    text += fmt::format(", {:.4g} J a step", energy->joules_per_step);
  }
  return text;
}

// "6.1 of 20.2 ms a step: more data.workers may help". Empty if data takes a small part of a step,
// or without advice.
std::string DataText(const RunResult& result, const std::string& advice) {
  const std::vector<double> steps = MeasuredSteps(result.metrics, kWarmupSteps),
                            data = MeasuredDataTimes(result.metrics, kWarmupSteps);
  if (steps.empty() || data.empty() || advice.empty()) return "";
  const std::string text =
      DataTimeText(QuartilesOf(data).median * 1e-3, QuartilesOf(steps).median * 1e-3);
  if (text.empty()) return "";
  return fmt::format("{} a step: {}", text.substr(text.find(' ') + 1), advice);
}

// Advice if the predicted step time is far from the measured step time: then the device was busy
// while rates or steps were measured. Empty if the times are close, or if no rates measured here
// chose the plan. Also empty with several ranks, because rates do not model how ranks share a
// device.
std::string RatesProblem(const RunResult& result, const std::string& rates) {
  constexpr double kFar = 2, kNoticed = 20;  // kFar is a factor, kNoticed in ms
  const std::vector<double> steps = MeasuredSteps(result.metrics, kWarmupSteps);
  if (rates.empty() || steps.empty() || !result.predicted_step_seconds || result.ranks > 1) {
    return "";
  }
  const double ms = QuartilesOf(steps).median, predicted = 1e3 * *result.predicted_step_seconds;
  if (std::max(ms / predicted, predicted / ms) < kFar || std::abs(ms - predicted) < kNoticed) {
    return "";
  }
  return fmt::format(
      "{:.4g} ms a step were predicted, {}: the device was busy then, or during this run; delete "
      "{}/calibration-*.json and its ops are timed anew",
      predicted, rates, CalibrationFolder());
}

std::string Of(const std::optional<int64_t>& budget) {
  return budget ? fmt::format(" of {}", FormatBytes(*budget)) : "";
}

std::string MemoryText(const RunResult& result) {
  const memory::MemoryPlan& plan = result.session.compiled().plan;
  const std::string host = plan.host_arena_bytes > 0
                               ? fmt::format(", {} on the host", FormatBytes(plan.host_arena_bytes))
                               : "";
  if (const runtime::DeviceMemory& memory = result.session.memory(); !memory.planned()) {
    const std::string reserved =
        FormatBytes(memory.stats(graph::Place::kDevice).peak_reserved) + " reserved";
    const std::string taken =
        result.process_bytes ? fmt::format("process {}{}, {}", FormatBytes(*result.process_bytes),
                                           Of(result.budget_bytes), reserved)
                             : reserved + Of(result.budget_bytes);
    return fmt::format("{}; a plan would take {}{}", taken, FormatBytes(plan.arena_bytes), host);
  }
  if (result.process_bytes) {
    return fmt::format("process {}{}, arena {} as planned{}", FormatBytes(*result.process_bytes),
                       Of(result.budget_bytes), FormatBytes(plan.arena_bytes), host);
  }
  const std::string process = FormatBytes(runtime::MeasureProcessMemory().peak_resident_bytes);
  // If both arenas share a budget, the text gives the sum of their bytes.
  if (const int64_t both = ArenaBytes(result.config, plan); both != plan.arena_bytes) {
    return fmt::format("arenas {} as planned{}: {} and, as the host's, {}; process {}",
                       FormatBytes(both), Of(result.budget_bytes), FormatBytes(plan.arena_bytes),
                       FormatBytes(plan.host_arena_bytes), process);
  }
  return fmt::format("arena {} as planned{}{}; process {}", FormatBytes(plan.arena_bytes),
                     Of(result.arena_budget_bytes), host, process);
}

}  // namespace

std::string UpdatesText(const StepCounts& counts) {
  if (counts.updates == counts.steps()) return "";
  std::vector<std::string> others;
  const auto add = [&](int64_t count, const char* why) {
    if (count > 0) others.push_back(fmt::format("{} {}", count, why));
  };
  add(counts.overflows, "skipped by the loss scale");
  add(counts.spikes, "skipped for a divergence");
  add(counts.without_targets, "without targets");
  return fmt::format("{} in {}; {}", counts.updates, Counted(counts.steps(), "step"),
                     fmt::join(others, ", "));
}

std::string NoUpdateText(const StepCounts& counts) {
  if (counts.steps() == 0 || counts.updates > 0) return "";
  std::string way_out = "a smaller optimizer.lr or a longer schedule.warmup may help";
  if (counts.without_targets == counts.steps()) {
    way_out =
        "samples need targets: prompts longer than model.sequence leave none, and neither do "
        "labels that are all ignored";
  } else if (counts.overflows > 0) {
    way_out = "a smaller amp.init_scale, more steps or amp.dtype: bf16 may help";
  }
  return fmt::format("the run made no update: {}; {}", UpdatesText(counts), way_out);
}

std::string ClosingSummary(const RunResult& result, const Closing& closing) {
  const std::string updates =
      closing.updates.empty() ? "" : fmt::format("updates {}\n", closing.updates);
  std::string text = updates + fmt::format("loss    {}\ntime    {}\nmemory  {}", LossText(result),
                                           TimeText(result, closing.seconds), MemoryText(result));
  if (const std::string data = DataText(result, closing.data_advice); !data.empty()) {
    text += "\ndata    " + data;
  }
  if (const std::string problem = RatesProblem(result, closing.rates); !problem.empty()) {
    text += "\nrates   " + problem;
  }
  if (!closing.model.empty()) {
    text += fmt::format("\nmodel   {}", closing.model);
    if (!closing.averages.empty()) text += fmt::format(", averages in {}", closing.averages);
    if (closing.weights_after)
      text += fmt::format(", as after {}", Counted(*closing.weights_after, "step"));
  }
  if (!closing.report.empty()) text += fmt::format("\nreport  {}", closing.report);
  return text;
}

}  // namespace plimsoll::trainer
