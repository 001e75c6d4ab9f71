// Batched matrix product of two tensors.
//
//   matmul   c[...,M,N] = op(a)[...,M,K] · op(b)[...,K,N]
//
// op transposes the last two dimensions if trans_a or trans_b is set: a is then stored as
// [...,K,M], b as [...,N,K]. Leading dimensions are equal (no broadcasting). All tensors have one
// float dtype; products of 16-bit values are summed in float32 and rounded once. tf32 as in
// ops/linear/linear.h.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

graph::Value Matmul(graph::Builder& g, graph::Value a, graph::Value b, bool trans_a = false,
                    bool trans_b = false, std::string_view name = "");

}  // namespace plimsoll::ops
