// The linear layer and its gradients.
//
//   linear       y[...,N]  = x[...,K] · weight[N,K]ᵀ + bias[N]
//   linear_dx    dx[...,K] = dy[...,N] · weight[N,K] (+ acc)
//   linear_dw    dweight[N,K] = dyᵀ · x (+ acc_weight),   dbias[N] = Σ over rows of dy (+ acc_bias)
//
// Activations, weight and bias (and dx's acc) have one float dtype; dweight, dbias and their acc
// have its compute type, so that sums over tokens and micro-steps are never rounded to 16 bits.
// Products of 16-bit values are summed in float32 and rounded once, after bias or acc is added.
// With the attribute tf32 (true), a GPU rounds float32 operands of the product to TF32, 10 bits of
// fraction, for its matrix units; the CPU ignores it.
// With the attribute axis (ops/collectives/axis.h) y is one addend of a sum over that axis's ranks,
// and only the first rank adds the bias; dbias is then the complete gradient, on every rank. weight
// has the layout of PyTorch's nn.Linear. The gradient ops may write over their acc input. Errors:
// InternalError on shapes that do not fit.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// If `bias` is kNoTensor, the layer has no bias.
graph::Value Linear(graph::Builder& g, graph::Value x, graph::Value weight,
                    graph::Value bias = graph::kNoTensor, std::string_view name = "");

}  // namespace plimsoll::ops
