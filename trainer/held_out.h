// Evaluation and early stopping of a run while it trains: the held-out metrics, which evaluation is
// the best, and whether to stop early.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/held_out_batches.h"
#include "data/source.h"
#include "trainer/config/run_config.h"
#include "trainer/record/sample_grid.h"
#include "trainer/record/slices.h"
#include "trainer/resolve/monitor.h"
#include "trainer/resolve/ranks.h"
#include "trainer/save_and_resume/run_record.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

class HeldOut {
 public:
  // Evaluates on the samples that `source` holds out. UserError when there is nothing to evaluate.
  // `ranks` must outlive this object.
  HeldOut(const config::RunConfig& config, const data::Source& source, Ranks& ranks);

  struct Evaluation {
    std::vector<StepMetrics> metrics;  // by objective; then of the averaged weights, if there are
    bool best = false;                 // so far
    std::string text;                  // a line for the user
    nlohmann::ordered_json mistakes;   // of all ranks (Mistakes::Gather); without a report none
    SlicePictures slices;              // the same of segmentations (Slices::Gather)
    std::vector<uint8_t> samples;      // images that the model makes (SampleGrid::Png); or empty
  };
  // Evaluates after `steps` steps and updates `state`. All ranks call. Calls `progressed` after
  // each batch.
  Evaluation Evaluate(Session& session, const Monitor& monitor, int64_t steps,
                      EvaluationState& state, const std::function<void()>& progressed);

  int64_t targets() const { return batches_.CountTargets(); }

 private:
  data::HeldOutBatches batches_;
  Ranks& ranks_;
  bool collects_;  // mistakes, slices and images, for the report
};

// Adapts `state` to the monitor: the best value of another metric is meaningless for this one.
void Follow(const Monitor& monitor, EvaluationState& state);

// True if early stopping (train.early_stop) ends the run.
bool GainsNoMore(const config::RunConfig& config, const EvaluationState& state);

}  // namespace plimsoll::trainer
