#include "trainer/resolve/monitor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <string>
#include <vector>

#include "base/spelling.h"

namespace plimsoll::trainer {

using config::MonitorMode;

double Monitor::Worst() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return larger_is_better ? -kInfinity : kInfinity;
}

Monitor MonitorFrom(const config::RunConfig& config, std::span<const MetricInfo> metrics) {
  const std::string& name = config.train.monitor;
  const MonitorMode mode = config.train.monitor_mode;
  std::vector<std::string> names;
  std::string problem =
      config.train.eval_every > 0
          ? "is no metric of this model"
          : "is no metric of training steps, and this run has no evaluations, which need held-out "
            "data and train.eval_every";
  for (const EvaluatedMetric& metric : EvaluatedMetrics(metrics)) {
    if (metric.info.scalar() && metric.name == name) {
      const bool declared = metric.info.larger_is_better;
      return {metric, mode == MonitorMode::kAuto ? declared : mode == MonitorMode::kMax};
    }
    if (metric.info.scalar()) {
      names.push_back(metric.name);
    } else if (metric.name == name) {
      problem = "is " + metric.info.type.ToString() + ", and no number that can be the best";
    }
  }
  throw config.Error("train.monitor", fmt::format("'{}' {}; it may be {}", Shortened(name), problem,
                                                  fmt::join(names, ", ")));
}

}  // namespace plimsoll::trainer
