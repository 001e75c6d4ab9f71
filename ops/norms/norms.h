// Normalization of activations by layer, root mean square, group and instance (by batch:
// batch_norm.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"
#include "ops/norms/batch_norm.h"

namespace plimsoll::ops {

// Layer normalization over the last dimension. Ba, Kiros, Hinton, "Layer normalization", 2016,
// eq. 4.
//
// y = (x − mean) · rstd · weight (+ bias), rstd = 1 / √(variance + eps), with the biased variance
// of the row (divided by D). x [...,D], weight [D], bias [D] or kNoTensor → y [...,D]. The op also
// returns mean and rstd of each row, for its gradient.
graph::Value LayerNorm(graph::Builder& g, graph::Value x, graph::Value weight, graph::Value bias,
                       double eps, std::string_view name = "");

// Root mean square normalization over the last dimension. Zhang, Sennrich, "Root mean square layer
// normalization", 2019, eq. 4.
//
// y = x · rstd · weight, rstd = 1 / √(mean of x² + eps). x [...,D], weight [D] → y [...,D]. The op
// also returns rstd of each row, for its gradient.
//
// With `unit_offset`, y = x · rstd · (1 + weight), as in Gemma: the sum is taken in the compute
// type, and y is rounded once. It is the attribute "unit_offset" (ops/norms/unit_offset.h).
graph::Value RmsNorm(graph::Builder& g, graph::Value x, graph::Value weight, double eps,
                     std::string_view name = "", bool unit_offset = false);

// Group normalization. Wu and He 2018, "Group Normalization".
//
// y = (x − mean) · rstd · weight + bias, rstd = 1 / √(variance + eps), with the mean and the biased
// variance of each sample and group: x[B,…,C] has `groups` groups of C / groups consecutive
// channels. weight and bias are [C] in x's type. InternalError on shapes that do not fit.
//
// It is a batch norm (batch_norm.h) of one sample at a time, whose statistics pass through
//
//   merge_channel_statistics   means[B,C], variances[B,C] of channels → mean[B,C], variance[B,C],
//                              for each channel those of its group
graph::Value GroupNorm(graph::Builder& g, graph::Value x, int64_t groups, graph::Value weight,
                       graph::Value bias, double eps, std::string_view name = "");

// Instance normalization. Ulyanov, Vedaldi and Lempitsky 2016, "Instance Normalization: The Missing
// Ingredient for Fast Stylization".
//
// y = (x − mean) · rstd · weight + bias, rstd = 1 / √(variance + eps), with the mean and the biased
// variance of each sample and channel of x[B,…,C]; then the activation, in one pass. weight and
// bias are [C] in x's compute type. It is a batch norm of one sample at a time (batch_norm.h).
// Throws InternalError on shapes that do not fit, and if a channel of a sample has only one value.
graph::Value InstanceNorm(graph::Builder& g, graph::Value x, graph::Value weight, graph::Value bias,
                          double eps, NormActivation activation = {}, std::string_view name = "");

}  // namespace plimsoll::ops
