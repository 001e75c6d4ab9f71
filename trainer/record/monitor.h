// The metric by which an evaluation is the best so far (train.monitor).
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
  // What every number is better than.
  double Worst() const;
};

// UserError at train.monitor, which names the metrics that there are, where there is none of that
// name, or where it is no number.
Monitor MonitorFrom(const config::RunConfig& config, std::span<const MetricInfo> metrics);

}  // namespace plimsoll::trainer
