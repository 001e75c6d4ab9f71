// Exponential moving averages of trained weights, as torch.optim.swa_utils.AveragedModel keeps them
// with get_ema_multi_avg_fn. Polyak, Juditsky, 1992, "Acceleration of Stochastic Approximation by
// Averaging"; Tarvainen, Valpola, 2017, "Mean teachers are better role models".
#pragma once

#include "graph/builder.h"
#include "ops/optimizer/optimizer.h"

namespace plimsoll::ops {

struct WeightAverageOptions {
  double decay = 0.999;
  // The decay with count n is min(decay, (1 + n) / (10 + n)), as in
  // tf.train.ExponentialMovingAverage.
  bool warmup = false;
};

// average ← value, if count is 1; otherwise average ← average + (1 − decay)(value − average). The
// value is the weight with its remainder or master (ops/optimizer/optimizer.h). It and `average`
// are f64 if p is f64, else f32. count i32[] ≥ 1 is the number of updates, including the update
// just before. If apply (i32[] or kNoTensor) is 0, `average` is unchanged. `average` is persistent
// and has p's shape.
void WeightAverage(graph::Builder& g, graph::Value average, StoredWeight weight, graph::Value count,
                   graph::Value apply, const WeightAverageOptions& options);

// Exchanges a weight and its average in place. Nodes that read p then read the average, rounded to
// p's type. A second exchange restores both to the bit (except the payload of NaNs). All are
// persistent. Between the exchanges, the average's memory holds the weight. If a bf16 p has neither
// remainder nor master, that memory has the 32 bits (p.bits << 16) + the lower half of the average.
void ExchangeAverage(graph::Builder& g, StoredWeight weight, graph::Value average);

}  // namespace plimsoll::ops
