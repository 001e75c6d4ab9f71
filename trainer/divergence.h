// Detects divergence of the training. Each step's metrics are judged once, in order; the verdict
// depends on them and on the configuration alone, so that all ranks decide alike, and a resumed run
// decides like an uninterrupted one.
//
// A step diverges when its loss or gradient norm is not finite, or when its loss is a spike, beyond
//     mean + divergence.spike · standard deviation      of the last divergence.window good losses
// up to two steps before: the host hands in a step while the device works on the one before it. If
// a step has several objectives, each is judged by its own losses, and the worst verdict is the
// step's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/save_and_resume/run_record.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// The consequence for a step.
struct Verdict {
  enum Kind {  // the worst last
    kGood,
    kSkipped,   // it left the state unchanged
    kRollBack,  // the state is useless: go back
    kStop       // the same, and the run ends
  };
  Kind kind = kGood;
  std::string text = {};  // for the user; empty: nothing to say
};

// Thrown when a run must go back because of this step.
struct Diverged {
  int64_t step = 0;
  std::string text;
};

// An objective of the steps.
struct JudgedObjective {
  std::string name = "";        // empty: the only one
  bool loss_is_scaled = false;  // overflowing gradients are skipped and no divergence
};
std::vector<JudgedObjective> JudgedObjectives(const CompiledStep& compiled);

class Divergence {
 public:
  // `config` must outlive it. `next` is the first step, `state` the state after the steps before
  // it.
  Divergence(const config::RunConfig& config, std::vector<JudgedObjective> objectives, int64_t next,
             const DivergenceState& state);

  // The largest good loss of a step; kNoLossLimit when there is no limit yet. Known once the steps
  // up to two before it have been judged.
  float LimitOf(int64_t step, size_t objective = 0) const {
    return state_.objectives[objective].limits[static_cast<size_t>(step % 2)];
  }
  double lr_factor() const { return state_.lr_factor; }
  // `metrics`: one for each objective.
  Verdict Judge(int64_t step, std::span<const StepMetrics> metrics);

  // The step made no update and has no loss to judge.
  void PassOver(int64_t step);

  const StepCounts& counts() const { return state_.counts; }
  // The state after the steps judged so far.
  const DivergenceState& state() const { return state_; }
  // The newest step whose loss was good, which means that the state before it is good.
  int64_t good() const { return good_; }
  // The run continues after `step` steps, with the state `then`, at a lower learning rate.
  void GoBack(int64_t step, const DivergenceState& then);

 private:
  Verdict Judge(int64_t step, size_t objective, const StepMetrics& metrics);
  void Count(std::span<const StepMetrics> metrics, const Verdict& verdict);
  // The reason why the step diverged; empty: it didn't.
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
