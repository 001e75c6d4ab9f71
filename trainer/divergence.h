// Detects divergence of the training. Each step's metrics are judged once, in order. The verdict
// depends only on the metrics and the configuration. So all ranks decide alike, and a resumed run
// decides like an uninterrupted run.
//
// A step diverges if its loss or gradient norm is not finite, if its gradient norm is so large that
// AdamW's second moments overflow, or if its loss is a spike: larger than
//
//   mean + divergence.spike · standard deviation
//
// over the last divergence.window good losses. The newest losses are not among them: they end two
// steps before this step, because the host enqueues a step while the device runs the step before
// it. If a step has several objectives, each is judged by its own losses, and the worst verdict is
// the step's verdict.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/save_and_resume/run_record.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// The verdict on a step.
struct Verdict {
  enum Kind {  // from the best to the worst
    kGood,
    kSkipped,   // the step left the state unchanged
    kRollBack,  // the state is useless: restore an earlier one
    kStop       // the state is useless, and the run ends
  };
  Kind kind = kGood;
  std::string text = {};  // a message for the user; empty means no message
};

// Thrown if this step requires a rollback.
struct Diverged {
  int64_t step = 0;
  std::string text;
};

// An objective whose losses are judged.
struct JudgedObjective {
  std::string name = "";  // empty for the only objective
  // Whether gradient overflows are skipped and do not count as divergences.
  bool loss_is_scaled = false;
  double largest_norm = std::numeric_limits<double>::infinity();  // optim::LargestNorm
};
std::vector<JudgedObjective> JudgedObjectives(const CompiledStep& compiled);

class Divergence {
 public:
  // `config` must outlive this object. `next` is the first step to judge. `state` is the state
  // after the steps before `next`.
  Divergence(const config::RunConfig& config, std::vector<JudgedObjective> objectives, int64_t next,
             const DivergenceState& state);

  // The largest loss of `step` that is not a spike; kNoLossLimit if there is no limit yet. The
  // limit is known once all steps up to step − 2 have been judged.
  float LimitOf(int64_t step, size_t objective = 0) const {
    return state_.objectives[objective].limits[static_cast<size_t>(step % 2)];
  }
  double lr_factor() const { return state_.lr_factor; }
  // Judges a step by its metrics, one for each objective.
  Verdict Judge(int64_t step, std::span<const StepMetrics> metrics);

  // Counts a step that made no update and has no loss to judge.
  void PassOver(int64_t step);

  const StepCounts& counts() const { return state_.counts; }
  // The state after the steps judged so far.
  const DivergenceState& state() const { return state_; }
  // The newest step with a good loss. The state before that step is good, too.
  int64_t good() const { return good_; }
  // Rolls back: the run continues after `step` steps with the state `then`, at a reduced learning
  // rate.
  void GoBack(int64_t step, const DivergenceState& then);

 private:
  Verdict Judge(int64_t step, size_t objective, const StepMetrics& metrics);
  void Count(std::span<const StepMetrics> metrics, const Verdict& verdict);
  // The reason why the step diverged; empty if it did not.
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
