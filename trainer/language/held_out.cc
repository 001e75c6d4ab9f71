#include "trainer/language/held_out.h"

#include <fmt/format.h>

#include "base/axes.h"
#include "trainer/language/eval.h"

namespace plimsoll::trainer {

HeldOut::HeldOut(const config::RunConfig& config, const data::DataSet& data, const Ranks& ranks)
    : batches_(data.eval, data::EvalOptions{.batch = config.train.micro_batch,
                                            .sequence = config.model.sequence(),
                                            .sequences = config.train.eval_sequences,
                                            .data_rank = ranks.position().at(kDataAxis),
                                            .data_ranks = ranks.mesh().ranks(kDataAxis)}) {
  if (targets() == 0) {
    throw config.Error("data.eval",
                       "every held-out target is marked ignored; there is nothing to evaluate");
  }
}

HeldOut::Evaluation HeldOut::Evaluate(Session& session, const Monitor& monitor, int64_t steps,
                                      EvaluationState& state,
                                      const std::function<void()>& progressed) {
  Evaluation evaluation;
  evaluation.metrics = EvaluateBatches(session, batches_, [&](int64_t /*done*/) { progressed(); });
  Follow(monitor, state);
  const double value = monitor.metric.Value(evaluation.metrics);
  evaluation.best = monitor.IsBetter(value, state.best_step < 0 ? monitor.Worst() : state.best);
  state.last = steps;
  if (evaluation.best) {
    state.best = value;
    state.best_step = steps;
  }
  state.without_gain = evaluation.best ? 0 : state.without_gain + 1;
  evaluation.text = fmt::format("evaluation after {} steps: held-out loss {:.4f}", steps,
                                evaluation.metrics.front().loss);
  const std::vector<EvaluatedMetric> evaluated = EvaluatedMetrics(session.metrics());
  for (const EvaluatedMetric& metric : std::span(evaluated).subspan(1)) {
    if (!metric.info.scalar()) continue;
    evaluation.text += fmt::format(", {} {:.4g}", metric.name, metric.Value(evaluation.metrics));
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
