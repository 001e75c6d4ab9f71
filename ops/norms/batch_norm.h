// Batch normalization (Ioffe and Szegedy 2015) over all dimensions but the last, the channels.
//
//   batch_norm_statistics        mean[G,C], variance[G,C]   of x[B,…,C], the biased variance, and
//                                unbiased[G,C] = variance · n / (n − 1) of n values (NaN of one)
//   merge_batch_norm_statistics  the same of all ranks' samples, from those of each
//   batch_norm                   y = (x − mean) / √(variance + eps) · weight + bias, perhaps plus
//                                a residual of x's shape, with the attribute relu the larger of
//                                that and 0; or, without a residual, with the attribute slope of
//                                that and slope times it (leaky ReLU). With a residual it also
//                                says where y is positive, one bit for each element
//                                (ops/norms/positive_bits.h)
//
// The samples, x's first dimension, are divided into G groups of consecutive ones, each of which is
// normalized by itself; G = 1 is the usual batch norm. Statistics are an op of their own: they are
// small and kept, so that y can be made again without them changing, and y can as well be made with
// running statistics, which are constants. What x does to y through its statistics comes into the
// gradient by the statistics' own rule.
//
// Statistics, weight and bias, [C], and the gradients of these have x's compute type. With relu the
// backward op makes again what was normalized, from x, as it needs to know where that is positive;
// with a residual it would need that, too, and reads the bits instead (ops/fusions.h).
// Errors: InternalError on shapes that do not fit.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

struct BatchStatistics {
  graph::Value mean = graph::kNoTensor, variance = graph::kNoTensor;  // [G,C]
  graph::Value unbiased = graph::kNoTensor;  // [G,C], for running statistics
};
BatchStatistics BatchNormStatistics(graph::Builder& g, graph::Value x, int64_t groups = 1);

// means[R,C] and variances[R,C] of R ranks, each of n values → mean[1,C], variance[1,C] and
// unbiased[1,C] of all R·n. Chan, Golub and LeVeque 1979, "Updating Formulae and a Pairwise
// Algorithm for Computing Sample Variances", equation 2.1, for R sets of one size: nothing is lost
// in a difference of large squares.
BatchStatistics MergeBatchNormStatistics(graph::Builder& g, graph::Value means,
                                         graph::Value variances, int64_t n,
                                         std::string_view name = "");

// What comes behind the norm, in one pass.
struct NormActivation {
  bool relu = false;
  double slope = 0;  // with relu: of a leaky ReLU, below 1
};

graph::Value BatchNorm(graph::Builder& g, graph::Value x, const BatchStatistics& statistics,
                       graph::Value weight, graph::Value bias, double eps,
                       NormActivation activation = {}, std::string_view name = "");

}  // namespace plimsoll::ops
