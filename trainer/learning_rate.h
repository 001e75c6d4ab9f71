// Learning-rate schedules: warm-up, then constant, linear, cosine, wsd or multistep.
#pragma once

#include <cstdint>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The learning rate of `step`. Schedules count steps (attempted updates) from 0. Warm-up is linear:
// lr·(step + 1)/(warmup + 1). After warm-up, the schedule spans the steps from `warmup` to `steps`:
//
//   constant  lr
//   linear    from lr to min_lr
//   cosine    min_lr + (lr − min_lr)·(1 + cos πt)/2, t from 0 to 1 (Loshchilov, Hutter 2017, eq. 5)
//   wsd       lr, then over the last decay_steps linearly to min_lr (warm-up, stable, decay)
//   multistep lr · gamma for each milestone at or before `step`, also during the warm-up
double LearningRate(const config::ScheduleConfig& schedule, double lr, int64_t steps, int64_t step);

}  // namespace plimsoll::trainer
