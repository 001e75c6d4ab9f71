// Group normalization. Wu and He 2018, "Group Normalization".
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

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

}  // namespace plimsoll::ops
