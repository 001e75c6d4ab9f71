// The linear layer and its gradients.
//
//   linear       y[...,N]  = x[...,K] · weight[N,K]ᵀ + bias[N]
//   linear_dx    dx[...,K] = dy[...,N] · weight[N,K] (+ acc)
//   linear_dw    dweight[N,K] = dyᵀ · x (+ acc_weight),   dbias[N] = Σ over rows of dy (+ acc_bias)
//
// Activations, weight and bias (and dx's acc) are of one float dtype; dweight, dbias and their acc
// are of its compute type, so that sums over tokens and micro-steps are never rounded to 16 bits.
// Products of 16-bit values are summed in float32 and rounded once, after bias or acc.
// With the attribute tf32 (true), a GPU rounds float32 operands of the product to TF32, 10 bits of
// fraction, for its matrix units; the CPU takes no notice.
// With the attribute axis (ops/axis.h) y is a part of a sum over that axis's ranks, to which the
// first of them adds the bias; dbias is then the whole gradient, on every rank.
// weight lies as PyTorch's nn.Linear keeps it. The gradient ops may write over their acc input.
// Errors: InternalError on shapes that do not fit.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// bias = kNoTensor: none.
graph::Value Linear(graph::Builder& g, graph::Value x, graph::Value weight,
                    graph::Value bias = graph::kNoTensor, std::string_view name = "");

}  // namespace plimsoll::ops
