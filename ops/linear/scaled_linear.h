// Matrix products of 8-bit codes.
#pragma once

#include <cstdint>
#include <string>

#include "graph/dtype.h"

namespace plimsoll::ops {

// The op `scaled_linear`, which passes emit (amp/fp8.h), for a linear layer and both of its
// gradients:
//
//   x [..., K], weight [N, K]: codes (ops/linear/quantize.h); x_scale, weight_scale: f32[];
//   bias? [N], acc? [..., N] of the result's type; rng? i32[2]   {dtype, fast?, key?,
//   low_gradient?}
//     → y [..., N] = x_scale · weight_scale · x · weightᵀ + bias + acc
//
// `dtype`: f32, bf16 or f16; rounded once (a GPU may round the product before it adds acc). With
// `low_gradient` (graph/op.h) a bf16 result is added to acc with stochastic rounding. With `fast` a
// GPU may sum with fewer bits (about 14 between promotions to float32).

// The product of x [m, k] and weight [n, k].
struct ScaledProduct {
  int64_t m = 0, n = 0, k = 0;
  graph::DType x = graph::DType::kFloat8E4M3, weight = graph::DType::kFloat8E4M3;
  graph::DType result = graph::DType::kBFloat16;
  bool bias = false;
};

// Why matrix units cannot compute this product; empty if they can. The answer needs no GPU: passes,
// the op and kernels ask for it.
std::string WhyNotScaled(const ScaledProduct& product);

}  // namespace plimsoll::ops
