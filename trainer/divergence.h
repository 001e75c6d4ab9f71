// Does the training still go well? Each step's metrics are looked at once, in order; what is
// decided is a function of them and of the configuration alone, so that all ranks decide alike, and
// a resumed run as one that was never stopped.
//
// A step diverges when its loss or gradient norm is not finite, or when its loss is a spike, beyond
//     mean + divergence.spike · standard deviation      of the last divergence.window good losses,
// taken two steps before: the host hands in a step while the device works on the one before it.
// Where a step has several objectives, each is judged by losses of its own, and the worst of the
// verdicts is the step's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/snapshot/run_record.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// What becomes of a step.
struct Verdict {
  enum Kind {  // the worst last
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

// An objective of the steps.
struct JudgedObjective {
  std::string name = "";        // empty: the only one
  bool loss_is_scaled = false;  // gradients that overflow are skipped, and that is no divergence
};
std::vector<JudgedObjective> JudgedObjectives(const CompiledStep& compiled);

class Divergence {
 public:
  // `config` must outlive it. `next` is the step that comes first, `state` what the rows before it
  // left.
  Divergence(const config::RunConfig& config, std::vector<JudgedObjective> objectives, int64_t next,
             const DivergenceState& state);

  // What the loss of a step may be at most; kNoLossLimit when there is no limit yet. Known when the
  // steps up to two before have been judged.
  float LimitOf(int64_t step, size_t objective = 0) const {
    return state_.objectives[objective].limits[static_cast<size_t>(step % 2)];
  }
  double lr_factor() const { return state_.lr_factor; }
  // `metrics`: of each objective.
  Verdict Judge(int64_t step, std::span<const StepMetrics> metrics);

  // After the steps judged so far.
  const DivergenceState& state() const { return state_; }
  // The newest step whose loss was good, and with it the state before that step.
  int64_t good() const { return good_; }
  // The run goes on after `step` steps, whose rows left `then`, at a lower learning rate.
  void GoBack(int64_t step, const DivergenceState& then);

 private:
  Verdict Judge(int64_t step, size_t objective, const StepMetrics& metrics);
  // Empty: none.
  std::string Problem(int64_t step, size_t objective, const StepMetrics& metrics) const;
  Verdict Answer(const std::string& problem, const StepMetrics& metrics) const;
  float Limit(const std::vector<float>& losses) const;

  const config::DivergenceConfig& config_;
  const config::AmpConfig& amp_;
  std::vector<JudgedObjective> objectives_;
  int64_t good_;
  DivergenceState state_;
};

}  // namespace plimsoll::trainer
