// Ops joined with a batch norm. The bits are the same: what was written between two ops is rounded
// as it would be in memory.
//
// The gradient of a norm and that of its statistics:
//
//   %d, %dmean, %dvariance, … = batch_norm_backward(%dy, %x, %mean, …)
//   %dx = batch_norm_statistics_backward(%x, %mean, %dmean, %dvariance, %d)
//
// becomes  %dx, _, _, … = batch_norm_backward(%dy, %x, %mean, …) {through_statistics=true}, which
// reads x and dy twice and writes dx once, where the two read and write seven times.
//
// A norm and what follows it at the end of a residual block:
//
//   %n = batch_norm(%x, …)
//   %s = add(%residual, %n)
//   %y = relu(%s)
//
// becomes  %y = batch_norm(%x, …, %residual) {relu=true}, which moves three tensors instead of
// seven.
//
// Its gradient, after the first fusion:
//
//   %d = relu_backward(%y, %dy)
//   %dx, _, _, … = batch_norm_backward(%d, %x, …) {through_statistics=true}
//
// becomes  %d, %dx, … = batch_norm_residual_backward(%dy, %y, %x, …), whose sums make %d as they go.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Return how many ops they have joined with others.
int FuseBatchNormGradients(graph::Program& program);
int FuseBatchNormResiduals(graph::Program& program);
int FuseBatchNormResidualGradients(graph::Program& program);

}  // namespace plimsoll::ops
