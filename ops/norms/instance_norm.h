// Instance normalization. Ulyanov, Vedaldi and Lempitsky 2016, "Instance Normalization: The Missing
// Ingredient for Fast Stylization".
#pragma once

#include <string_view>

#include "graph/builder.h"
#include "ops/norms/batch_norm.h"

namespace plimsoll::ops {

// y = (x − mean) · rstd · weight + bias, rstd = 1 / √(variance + eps), with the mean and the biased
// variance of each sample and channel of x[B,…,C], then the activation, in one pass. weight and
// bias are [C] in x's compute type. It is a batch norm of one sample at a time (batch_norm.h).
// InternalError on shapes that do not fit, and where a channel of a sample has one value alone.
graph::Value InstanceNorm(graph::Builder& g, graph::Value x, graph::Value weight, graph::Value bias,
                          double eps, NormActivation activation = {}, std::string_view name = "");

}  // namespace plimsoll::ops
