// The metrics of a model over held-out samples.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/held_out_batches.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// The metrics of each objective over all batches; a loss is the mean over all targets of its
// objective. The session must be compiled to evaluate batches of that size. `progress` is called
// after every batch.
std::vector<StepMetrics> EvaluateBatches(
    Session& session, const data::HeldOutBatches& batches,
    const std::function<void(int64_t done)>& progress = nullptr);

// The same metrics with averaged weights (Session::ExchangeAverages). Returns `of_weights`, the
// metrics of the weights themselves, while no averages exist.
std::vector<StepMetrics> EvaluateAverages(Session& session, const data::HeldOutBatches& batches,
                                          const std::vector<StepMetrics>& of_weights,
                                          const std::function<void(int64_t done)>& progress);

}  // namespace plimsoll::trainer
