// Computes a model's metrics on held-out samples.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/held_out_batches.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Returns the metrics of each objective over all batches. A loss is the mean over all targets of
// its objective. The session must be compiled to evaluate batches of this size. `progress` is
// called after every batch.
std::vector<StepMetrics> EvaluateBatches(
    Session& session, const data::HeldOutBatches& batches,
    const std::function<void(int64_t done)>& progress = nullptr);

// Like EvaluateBatches, but with averaged weights (Session::ExchangeAverages). If no averages exist
// yet, returns `of_weights`, the metrics of the weights themselves.
std::vector<StepMetrics> EvaluateAverages(Session& session, const data::HeldOutBatches& batches,
                                          const std::vector<StepMetrics>& of_weights,
                                          const std::function<void(int64_t done)>& progress);

}  // namespace plimsoll::trainer
