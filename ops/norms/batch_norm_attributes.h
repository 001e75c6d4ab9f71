// Attributes of batch_norm and batch_norm_backward.
#pragma once

#include "graph/attributes.h"

namespace plimsoll::ops {

// "relu": the larger of the normalized value and 0.
inline bool AppliesRelu(const graph::Attributes& attributes) {
  return attributes.Has("relu") && attributes.GetBool("relu");
}

// "through_statistics", of the backward op: dx is also what comes through the statistics of x, in
// place of the results dmean and dvariance (ops/norms/batch_norm_fusion.h).
inline bool GoesThroughStatistics(const graph::Attributes& attributes) {
  return attributes.Has("through_statistics") && attributes.GetBool("through_statistics");
}

}  // namespace plimsoll::ops
