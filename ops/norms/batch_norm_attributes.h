// Attributes of batch_norm and batch_norm_backward.
#pragma once

#include "graph/attributes.h"

namespace plimsoll::ops {

// The attribute "relu": values that are not positive become 0 or, with "slope", slope times their
// value.
inline bool AppliesRelu(const graph::Attributes& attributes) {
  return attributes.Has("relu") && attributes.GetBool("relu");
}
inline double ReluSlope(const graph::Attributes& attributes) {
  return attributes.Has("slope") ? attributes.GetReal("slope") : 0;
}

// The attribute "through_statistics" of the backward op: dx includes the gradient through the
// statistics of x, and the results dmean and dvariance are not needed (ops/fusions.h).
inline bool GoesThroughStatistics(const graph::Attributes& attributes) {
  return attributes.Has("through_statistics") && attributes.GetBool("through_statistics");
}

}  // namespace plimsoll::ops
