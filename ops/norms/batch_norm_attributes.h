// Attributes of batch_norm and batch_norm_backward.
#pragma once

#include "graph/attributes.h"

namespace plimsoll::ops {

// "relu": values that are not positive become 0, or, with "slope", slope times themselves.
inline bool AppliesRelu(const graph::Attributes& attributes) {
  return attributes.Has("relu") && attributes.GetBool("relu");
}
inline double ReluSlope(const graph::Attributes& attributes) {
  return attributes.Has("slope") ? attributes.GetReal("slope") : 0;
}

// "through_statistics", of the backward op: dx is also what comes through the statistics of x, in
// place of the results dmean and dvariance (ops/fusions.h).
inline bool GoesThroughStatistics(const graph::Attributes& attributes) {
  return attributes.Has("through_statistics") && attributes.GetBool("through_statistics");
}

}  // namespace plimsoll::ops
