// Does the training still go well? Each step's metrics are looked at once, in order; what is
// decided is a function of them and of the configuration alone, so that all ranks decide alike, and
// a resumed run as one that was never stopped.
//
// A step diverges when its loss or gradient norm is not finite, or when its loss is a spike, beyond
//     mean + divergence.spike · standard deviation      of the last divergence.window good losses,
// taken two steps before: the host hands in a step while the device works on the one before it.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/config/run_config.h"
#include "trainer/snapshot/run_record.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// What becomes of a step.
struct Verdict {
  enum Kind {
    kGood,
    kSkipped,   // it left no trace in the state
    kRollBack,  // the state is of no use: go back
    kStop       // the same, and the run ends
  };
  Kind kind = kGood;
  std::string text = {};  // for the user; empty: nothing to say
};

// Thrown where a run is to go back because of this step.
struct Diverged {
  int64_t step = 0;
  std::string text;
};

class Divergence {
 public:
  // `config` must outlive it. `next` is the step that comes first, `state` what the rows before it
  // left. `loss_is_scaled`: a step whose gradients overflow is skipped, and that is no divergence.
  Divergence(const config::RunConfig& config, bool loss_is_scaled, int64_t next,
             const DivergenceState& state);

  // What the loss of a step may be at most; kNoLossLimit when there is no limit yet. Known when the
  // steps up to two before have been judged.
  float LimitOf(int64_t step) const { return state_.limits[static_cast<size_t>(step % 2)]; }
  double lr_factor() const { return state_.lr_factor; }
  Verdict Judge(int64_t step, const StepMetrics& metrics);

  // After the steps judged so far.
  const DivergenceState& state() const { return state_; }
  // The newest step whose loss was good, and with it the state before that step.
  int64_t good() const { return good_; }
  // The run goes on after `step` steps, whose rows left `then`, at a lower learning rate.
  void GoBack(int64_t step, const DivergenceState& then);

 private:
  std::string Problem(int64_t step, const StepMetrics& metrics) const;  // empty: none
  Verdict Answer(const std::string& problem, const StepMetrics& metrics) const;
  float Limit() const;

  const config::DivergenceConfig& config_;
  const config::AmpConfig& amp_;
  bool loss_is_scaled_;
  int64_t good_;
  DivergenceState state_;
};

}  // namespace plimsoll::trainer
