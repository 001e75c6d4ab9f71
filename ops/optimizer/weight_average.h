// Exponential moving averages of trained weights, as torch.optim.swa_utils.AveragedModel keeps them
// with get_ema_multi_avg_fn. Polyak, Juditsky, 1992, "Acceleration of Stochastic Approximation by
// Averaging"; Tarvainen, Valpola, 2017, "Mean teachers are better role models".
#pragma once

#include "graph/builder.h"
#include "ops/optimizer/optimizer.h"

namespace plimsoll::ops {

struct WeightAverageOptions {
  double decay = 0.999;
  // With count n the decay is min(decay, (1 + n) / (10 + n)), as tf.train.ExponentialMovingAverage
  // has it.
  bool warmup = false;
};

// average ← value, if count is 1; otherwise average ← average + (1 − decay)(value − average). The
// value is the weight with its remainder or master (ops/optimizer/optimizer.h): f32, or f64 where p
// is, as `average` is. count i32[] ≥ 1 is the number of updates, including the update just before.
// If apply (i32[] or kNoTensor) is 0, `average` stays as it is. `average` is persistent and of p's
// shape.
void WeightAverage(graph::Builder& g, graph::Value average, StoredWeight weight, graph::Value count,
                   graph::Value apply, const WeightAverageOptions& options);

// Exchanges a weight and its average in place: what reads p then reads the average, rounded to p's
// type, until a second exchange restores both to the bit (but for the payload of NaNs). All are
// persistent. In between, the average's memory holds the weight; where a bf16 p has neither
// remainder nor master, it has the 32 bits (p.bits << 16) + the lower half of the average.
void ExchangeAverage(graph::Builder& g, StoredWeight weight, graph::Value average);

}  // namespace plimsoll::ops
