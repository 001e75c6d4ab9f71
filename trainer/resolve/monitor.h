// The metric that decides which evaluation is the best so far (train.monitor).
#pragma once

#include <span>

#include "trainer/config/run_config.h"
#include "trainer/step/metrics.h"

namespace plimsoll::trainer {

struct Monitor {
  EvaluatedMetric metric;
  bool larger_is_better = false;

  bool IsBetter(double value, double than) const {
    return larger_is_better ? value > than : value < than;
  }
  // A value that is worse than every number.
  double Worst() const;
};

// UserError at train.monitor, naming the available metrics, when no metric has that name or the
// metric is not a scalar.
Monitor MonitorFrom(const config::RunConfig& config, std::span<const MetricInfo> metrics);

}  // namespace plimsoll::trainer
