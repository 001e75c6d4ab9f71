// The metrics of a model over held-out samples.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/data/held_out_batches.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// The metrics of each objective over all batches; a loss is the mean over all of its targets. The
// session must be compiled for evaluating batches of that size. `progress` is called after every
// batch.
std::vector<StepMetrics> EvaluateBatches(
    Session& session, const data::HeldOutBatches& batches,
    const std::function<void(int64_t done)>& progress = nullptr);

}  // namespace plimsoll::trainer
