// The gradient of a batch norm and that of its statistics in one op:
//
//   %d, %dmean, %dvariance, … = batch_norm_backward(%dy, %x, %mean, …)
//   %dx = batch_norm_statistics_backward(%x, %mean, %dmean, %dvariance, %d)
//
// becomes  %dx, _, _, … = batch_norm_backward(%dy, %x, %mean, …) {through_statistics=true}, which
// reads x and dy twice and writes dx once, where the two read and write seven times. The bits are
// the same: %d is rounded in between as it would be in memory.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Returns how many pairs it has joined.
int FuseBatchNormGradients(graph::Program& program);

}  // namespace plimsoll::ops
