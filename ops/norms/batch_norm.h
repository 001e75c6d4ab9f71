// Batch normalization (Ioffe and Szegedy 2015) over all dimensions but the last, the channels.
//
//   batch_norm_statistics        mean[G,C], variance[G,C]   of x[B,…,C], the biased variance, and
//                                unbiased[G,C] = variance · n / (n − 1) of n values (NaN if n = 1)
//   merge_batch_norm_statistics  the statistics of all ranks' samples, from those of each rank
//   batch_norm                   y = (x − mean) / √(variance + eps) · weight + bias, optionally
//   plus
//                                a residual of x's shape. With the attribute relu, y = max(y, 0);
//                                with the attribute slope and without a residual, leaky ReLU:
//                                y = max(y, slope · y). With a residual the op also returns where y
//                                is positive, one bit for each element (ops/norms/positive_bits.h)
//
// The samples, x's first dimension, are divided into G groups of consecutive samples. Each group is
// normalized separately; G = 1 is the usual batch norm. Statistics are a separate op. They are
// small and kept, so that y can be recomputed without changing them; and y can also be computed
// with running statistics, which are constants. The gradient that reaches x through its statistics
// comes from the gradient rule of the statistics.
//
// Statistics, weight and bias, [C], and the gradients of these have x's compute type. With relu the
// backward op recomputes the normalized value from x, to know where it is positive. With a residual
// it would need the residual, too, and reads the bits instead (ops/fusions.h).
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

// Merges means[R,C] and variances[R,C] of R ranks, each of n values, into mean[1,C], variance[1,C]
// and unbiased[1,C] of all R·n values. Chan, Golub and LeVeque 1979, "Updating Formulae and a
// Pairwise Algorithm for Computing Sample Variances", equation 2.1, for R sets of one size. No
// digits are lost in a difference of large squares.
BatchStatistics MergeBatchNormStatistics(graph::Builder& g, graph::Value means,
                                         graph::Value variances, int64_t n,
                                         std::string_view name = "");

// The activation after the norm, computed in one pass with it.
struct NormActivation {
  bool relu = false;
  double slope = 0;  // with relu: the slope of a leaky ReLU, below 1; 0: ReLU
};

graph::Value BatchNorm(graph::Builder& g, graph::Value x, const BatchStatistics& statistics,
                       graph::Value weight, graph::Value bias, double eps,
                       NormActivation activation = {}, std::string_view name = "");

}  // namespace plimsoll::ops
