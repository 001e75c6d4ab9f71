#include "trainer/held_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/amounts.h"
#include "base/axes.h"
#include "base/error.h"
#include "trainer/config/schema.h"
#include "trainer/record/mistakes.h"
#include "trainer/resolve/source_from.h"
#include "trainer/step/evaluate.h"

namespace plimsoll::trainer {
namespace {

data::HeldOutBatches BatchesOf(const config::RunConfig& config, const data::Source& source,
                               const Ranks& ranks) {
  std::unique_ptr<const data::Source> samples = HeldOutFrom(config, source);
  try {
    data::HeldOutBatches batches(std::move(samples), config.train.micro_batch,
                                 ranks.position().at(kDataAxis), ranks.mesh().ranks(kDataAxis),
                                 DataWorkersFrom(config));
    if (batches.CountTargets() > 0) return batches;
    throw UserError(HeldOutKey(config) +
                    ": every held-out target is marked ignored; there is nothing to evaluate");
  } catch (const UserError& error) {
    throw WithPlace(config, error);
  }
}

}  // namespace

HeldOut::HeldOut(const config::RunConfig& config, const data::Source& source, Ranks& ranks)
    : batches_(BatchesOf(config, source, ranks)), ranks_(ranks), collects_(config.log.report) {}

HeldOut::Evaluation HeldOut::Evaluate(Session& session, const Monitor& monitor, int64_t steps,
                                      EvaluationState& state,
                                      const std::function<void()>& progressed) {
  Evaluation evaluation;
  Mistakes mistakes;
  Slices slices;
  SampleGrid samples;
  evaluation.metrics = EvaluateBatches(session, batches_, [&](int64_t done) {
    if (collects_) {
      mistakes.Add(session, batches_.First(done - 1));
      slices.Add(session, batches_.First(done - 1));
      samples.Add(session, batches_.First(done - 1), batches_.CountSamples());
    }
    progressed();
  });
  if (collects_) {
    evaluation.mistakes = mistakes.Gather(ranks_);
    evaluation.slices = slices.Gather(ranks_);
    samples.Gather(ranks_);
    evaluation.samples = samples.Png();
  }
  if (session.averages()) {
    std::ranges::copy(EvaluateAverages(session, batches_, evaluation.metrics,
                                       [&](int64_t /*done*/) { progressed(); }),
                      std::back_inserter(evaluation.metrics));
  }
  Follow(monitor, state);
  const double value = monitor.metric.Value(evaluation.metrics);
  evaluation.best = monitor.IsBetter(value, state.best_step < 0 ? monitor.Worst() : state.best);
  state.last = steps;
  if (evaluation.best) {
    state.best = value;
    state.best_step = steps;
  }
  state.without_gain = evaluation.best ? 0 : state.without_gain + 1;
  const std::vector<EvaluatedMetric> evaluated = EvaluatedMetrics(session.metrics());
  evaluation.text = fmt::format("evaluation after {}: held-out {} {:.4f}", Counted(steps, "step"),
                                evaluated.front().info.name, evaluation.metrics.front().loss);
  constexpr int kMost = 12;  // number of metrics in one line
  int scalars = 0;
  for (const EvaluatedMetric& metric : std::span(evaluated).subspan(1)) {
    if (metric.info.name == evaluated.front().info.name || !metric.info.scalar()) continue;
    if (++scalars > kMost) continue;
    evaluation.text += fmt::format(", {} {:.4g}", metric.name, metric.Value(evaluation.metrics));
  }
  if (scalars > kMost) {
    evaluation.text += fmt::format(", and {} more in metrics.jsonl", scalars - kMost);
  }
  if (!evaluation.best) {
    const std::string of = evaluated.size() > 1 ? " " + monitor.metric.name : "";
    evaluation.text += fmt::format(" (best{} {:.4f})", of, state.best);
  }
  return evaluation;
}

void Follow(const Monitor& monitor, EvaluationState& state) {
  if (state.monitor == monitor.metric.name && state.larger_is_better == monitor.larger_is_better) {
    return;
  }
  state = {.last = state.last,
           .monitor = monitor.metric.name,
           .larger_is_better = monitor.larger_is_better};
}

bool GainsNoMore(const config::RunConfig& config, const EvaluationState& state) {
  return config.train.early_stop > 0 && state.without_gain >= config.train.early_stop;
}

}  // namespace plimsoll::trainer
