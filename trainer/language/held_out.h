// The evaluations of a run while it trains: the held-out loss, which is the best, and when there is
// no gain any more.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trainer/config/run_config.h"
#include "trainer/data/dataset.h"
#include "trainer/data/loader.h"
#include "trainer/settle/ranks.h"
#include "trainer/snapshot/run_record.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

class HeldOut {
 public:
  // UserError (data.eval) when there is nothing to evaluate. `config` and `streams` outlive it.
  HeldOut(const config::RunConfig& config, const data::DataSet& data, const Ranks& ranks);

  struct Evaluation {
    double loss = 0;
    bool best = false;  // so far
    std::string text;   // a line for the user
  };
  // After so many steps; `state` is brought up to date. All ranks call. `progressed` is called
  // after each batch.
  Evaluation Evaluate(Session& session, int64_t steps, EvaluationState& state,
                      const std::function<void()>& progressed);

  int64_t targets() const { return batches_.CountTargets(); }

 private:
  data::EvalBatches batches_;
};

// Has early stopping (train.early_stop) come to its end?
bool GainsNoMore(const config::RunConfig& config, const EvaluationState& state);

}  // namespace plimsoll::trainer
