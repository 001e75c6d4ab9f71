// The evaluations of a run while it trains: the held-out metrics, which is the best, and when there
// is no gain any more.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/data/dataset.h"
#include "trainer/data/loader.h"
#include "trainer/record/monitor.h"
#include "trainer/settle/ranks.h"
#include "trainer/snapshot/run_record.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

class HeldOut {
 public:
  // UserError (data.eval) when there is nothing to evaluate. `config` and `streams` outlive it.
  HeldOut(const config::RunConfig& config, const data::DataSet& data, const Ranks& ranks);

  struct Evaluation {
    std::vector<StepMetrics> metrics;  // by objective
    bool best = false;                 // so far
    std::string text;                  // a line for the user
  };
  // After so many steps; `state` is brought up to date. All ranks call. `progressed` is called
  // after each batch.
  Evaluation Evaluate(Session& session, const Monitor& monitor, int64_t steps,
                      EvaluationState& state, const std::function<void()>& progressed);

  int64_t targets() const { return batches_.CountTargets(); }

 private:
  data::EvalBatches batches_;
};

// Makes `state` one of that monitor: what was the best by another metric says nothing of this one.
void Follow(const Monitor& monitor, EvaluationState& state);

// Has early stopping (train.early_stop) come to its end?
bool GainsNoMore(const config::RunConfig& config, const EvaluationState& state);

}  // namespace plimsoll::trainer
