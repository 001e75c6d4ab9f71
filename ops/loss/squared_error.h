// Squared error: the loss of predicting numbers, and the sums from which scores of regression are
// computed.
//
//   loss = weight · Σ (x − t)²
//   dx   = dloss · weight · 2 · (x − t)
//
// Like PyTorch's MSELoss with reduction="sum". Predictions x[…] have one float dtype S and any
// shape; weight f32[] (1 / numbers of the step that count). Targets t f32[…] of x's shape are
// constants. A NaN is no target: its prediction has no loss and is in no sum. loss and dloss have
// S's compute type. Errors: InternalError on shapes that do not fit.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// The columns of `moments`. Each is a sum of this term over the predictions that have a target.
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
// The bits of a float that row 0 of the moments keeps (see `moments`).
inline constexpr uint32_t kUpperBits = 0xfffff000;

struct SquaredErrorSums {
  graph::Value loss;
  // f32[2,kMoments], for metrics. A variance is a small difference of large sums, so each sum has
  // two parts. Row 0 is the sum cut off after 12 binary digits, so that several of them add up
  // without rounding; row 1 is the rest. Both are computed in double.
  graph::Value moments;
};
SquaredErrorSums SquaredError(graph::Builder& g, graph::Value predictions, graph::Value weight,
                              graph::Value targets, std::string_view name = "");

}  // namespace plimsoll::ops
