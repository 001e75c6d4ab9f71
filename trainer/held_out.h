// Evaluation and early stopping of a run while it trains: computes the held-out metrics, finds the
// best evaluation, and decides whether to stop early.
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
  // Evaluates on the samples that `source` holds out. Throws a UserError if `source` holds out no
  // samples. `ranks` must outlive this object.
  HeldOut(const config::RunConfig& config, const data::Source& source, Ranks& ranks);

  struct Evaluation {
    // Metrics of each objective, followed by those with averaged weights, if any.
    std::vector<StepMetrics> metrics;
    bool best = false;  // whether this evaluation is the best so far
    std::string text;   // a line for the user
    // The mistakes found on all ranks (Mistakes::Gather); empty if the run writes no report.
    nlohmann::ordered_json mistakes;
    SlicePictures slices;  // pictures of segmentations from all ranks (Slices::Gather)
    // The PNG of images that the model generated (SampleGrid::Png); empty if it generates none.
    std::vector<uint8_t> samples;
  };
  // Evaluates after `steps` steps and updates `state`. All ranks call this. Calls `progressed`
  // after each batch.
  Evaluation Evaluate(Session& session, const Monitor& monitor, int64_t steps,
                      EvaluationState& state, const std::function<void()>& progressed);

  int64_t targets() const { return batches_.CountTargets(); }

 private:
  data::HeldOutBatches batches_;
  Ranks& ranks_;
  bool collects_;  // whether to collect mistakes, slices and images for the report
};

// Resets `state` if the monitored metric is not the one in `state`, because the best value of a
// different metric is meaningless.
void Follow(const Monitor& monitor, EvaluationState& state);

// True if early stopping (train.early_stop) ends the run.
bool GainsNoMore(const config::RunConfig& config, const EvaluationState& state);

}  // namespace plimsoll::trainer
