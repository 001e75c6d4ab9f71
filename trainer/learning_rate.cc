#include "trainer/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace plimsoll::trainer {

using config::ScheduleName;

double LearningRate(const config::ScheduleConfig& schedule, double lr, int64_t steps,
                    int64_t step) {
  if (schedule.name == ScheduleName::kMultistep) {
    const auto passed = std::ranges::count_if(schedule.milestones, [&](double milestone) {
      return static_cast<double>(step) >= milestone;
    });
    lr *= std::pow(schedule.gamma, static_cast<double>(passed));
  }
  const int64_t warmup = schedule.WarmUpWithin(steps);
  if (step < warmup) {
    return lr * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  }
  const double min_lr = schedule.min_lr;
  auto progress = [&](int64_t from) {
    if (steps <= from) return 1.0;
    return std::clamp(static_cast<double>(step - from) / static_cast<double>(steps - from), 0.0,
                      1.0);
  };
  switch (schedule.name) {
    case ScheduleName::kConstant:
    case ScheduleName::kMultistep:
      return lr;
    case ScheduleName::kLinear:
      return lr + (min_lr - lr) * progress(warmup);
    case ScheduleName::kCosine:
      return min_lr + (lr - min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * progress(warmup)));
    case ScheduleName::kWsd: {
      const int64_t decay_from = std::max(warmup, steps - schedule.decay_steps);
      return step < decay_from ? lr : lr + (min_lr - lr) * progress(decay_from);
    }
  }
  return lr;
}

}  // namespace plimsoll::trainer
