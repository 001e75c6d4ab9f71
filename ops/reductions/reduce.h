// Sums over complete tensors. Each fixed chunk of elements is summed in double; then the chunks of
// a tensor are added in their order, and then the tensors in theirs. The result doesn't depend on
// the number of threads, and the norm of several tensors has the bits of RootOfSums over their
// SquareSums.
#pragma once

#include <string_view>
#include <vector>

#include "graph/builder.h"

namespace plimsoll::ops {

// Σ x and Σ x², scalars of x's compute type: f32 for 16-bit elements.
graph::Value Sum(graph::Builder& g, graph::Value x, std::string_view name = "");
graph::Value SquaredNorm(graph::Builder& g, graph::Value x, std::string_view name = "");

// √(Σ x²) over all elements of all tensors (at least one) → f32[]. Not differentiable.
graph::Value GlobalNorm(graph::Builder& g, const std::vector<graph::Value>& tensors,
                        std::string_view name = "");

// Σ x² over all elements → f64[]; √(Σ sums) of such sums (at least one) → f32[]. Not
// differentiable.
graph::Value SquareSum(graph::Builder& g, graph::Value x, std::string_view name = "");
graph::Value RootOfSums(graph::Builder& g, const std::vector<graph::Value>& sums,
                        std::string_view name = "");

// min(1, max_norm / (norm + 1e-6)), like torch.nn.utils.clip_grad_norm_: f32[] → f32[].
graph::Value ClipFactor(graph::Builder& g, graph::Value norm, double max_norm,
                        std::string_view name = "");

}  // namespace plimsoll::ops
