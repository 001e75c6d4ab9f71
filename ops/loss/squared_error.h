// Squared error: the loss of predicting numbers, and the sums that scores of regression follow
// from.
//
//   loss = weight · Σ (x − t)²
//   dx   = dloss · weight · 2 · (x − t)
//
// As PyTorch's MSELoss with reduction="sum". Predictions x[…] of one float dtype S and any shape;
// weight f32[] (1 / numbers of the step that count). Targets t f32[…] of x's shape are constants;
// one that is NaN is no target: its prediction carries no loss and is in no sum. loss and dloss
// have S's compute type. Errors: InternalError on shapes that do not fit.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// The columns of `moments`: sums over the predictions that have a target.
enum Moment : int64_t {
  kCountMoment,    // 1
  kMoment,         // x
  kTargetMoment,   // t
  kSquareMoment,   // x²
  kTargetSquare,   // t²
  kProductMoment,  // x·t
  kSquaredError,   // (x − t)²
  kAbsoluteError,  // |x − t|
  kMoments
};
// The bits of a float that row 0 of the moments keeps (below).
inline constexpr uint32_t kUpperBits = 0xfffff000;

struct SquaredErrorSums {
  graph::Value loss;
  // f32[2,kMoments], for metrics. A variance is a small difference of large sums, so each sum has
  // two parts: row 0 is the sum cut off after 12 binary digits, so that several of them add up
  // without rounding; row 1 is the rest. Both are made in double.
  graph::Value moments;
};
SquaredErrorSums SquaredError(graph::Builder& g, graph::Value predictions, graph::Value weight,
                              graph::Value targets, std::string_view name = "");

}  // namespace plimsoll::ops
