#include "trainer/language/held_out.h"

#include <fmt/format.h>

#include "base/axes.h"
#include "trainer/language/eval.h"

namespace plimsoll::trainer {

HeldOut::HeldOut(const config::RunConfig& config, const data::DataSet& data, const Ranks& ranks)
    : batches_(data.eval, data::EvalOptions{.batch = config.train.micro_batch,
                                            .sequence = config.model.sequence,
                                            .sequences = config.train.eval_sequences,
                                            .data_rank = ranks.position().at(kDataAxis),
                                            .data_ranks = ranks.mesh().ranks(kDataAxis)}) {
  if (targets() == 0) {
    throw config.Error("data.eval",
                       "every held-out target is marked ignored; there is nothing to evaluate");
  }
}

HeldOut::Evaluation HeldOut::Evaluate(Session& session, int64_t steps, EvaluationState& state,
                                      const std::function<void()>& progressed) {
  Evaluation evaluation;
  evaluation.loss = HeldOutLoss(session, batches_, [&](int64_t /*done*/) { progressed(); });
  evaluation.best = evaluation.loss < state.best;
  state.last = steps;
  if (evaluation.best) {
    state.best = evaluation.loss;
    state.best_step = steps;
  }
  state.without_gain = evaluation.best ? 0 : state.without_gain + 1;
  evaluation.text =
      fmt::format("evaluation after {} steps: held-out loss {:.4f}{}", steps, evaluation.loss,
                  evaluation.best ? "" : fmt::format(" (best {:.4f})", state.best));
  return evaluation;
}

bool GainsNoMore(const config::RunConfig& config, const EvaluationState& state) {
  return config.train.early_stop > 0 && state.without_gain >= config.train.early_stop;
}

}  // namespace plimsoll::trainer
